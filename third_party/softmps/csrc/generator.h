// The "mps" random number generator: a CPU engine with a salted seed.
#pragma once

#include <ATen/core/Generator.h>

namespace softmps {

const at::Generator& default_generator();
at::Generator new_generator();
// The CPU engine behind an MPS generator, for the fallback.
at::Generator host_generator(const at::Generator& generator);

}  // namespace softmps
