// Operators without a kernel of their own here: wait for the stream, run the CPU kernel on the
// buffers' contents.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/stack.h>

namespace softmps {

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// The same for an operator that a Mac refuses, unless PYTORCH_ENABLE_MPS_FALLBACK=1.
void run_missing_op(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace softmps
