// Operators that PyTorch cannot run on MPS, though the CPU could run them here.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <unordered_set>

namespace softmps {

const std::unordered_set<std::string>& ops_missing_on_mac();

// Throws PyTorch's NotImplementedError for an operator that has no MPS kernel. As on a Mac,
// PYTORCH_ENABLE_MPS_FALLBACK=1 turns the error into a warning if the CPU can run it, but never for
// distributed operators.
void refuse_missing_op(const c10::OperatorHandle& op);

}  // namespace softmps
