// Arguments of compile_shader's kernels, from Python.
#pragma once

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include "metal.h"

namespace softmps {

// Packs them as PyTorch does: a tensor as its buffer and byte offset, an int as int64, a float as
// float, a list or tuple of either as an array. `casts` is None, one type name for all numbers, or
// a dict from argument index to type name.
std::vector<metal::Argument> pack_arguments(const py::sequence& arguments, const py::object& casts);

}  // namespace softmps
