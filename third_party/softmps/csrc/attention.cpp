// scaled_dot_product_attention: PyTorch's composite asks a DispatchStub that has no MPS case on
// Linux. As a Mac does, take the math path; it is composite too, so autograd works through it.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/zeros_like.h>

#include <limits>

#include "kernels.h"

namespace softmps {
namespace {

constexpr size_t kQuery = 0, kMask = 3, kDropoutMask = 6;  // positions in the schemas

const c10::OperatorHandle& math_attention() {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(
      "aten::_scaled_dot_product_attention_math", "");
  return op;
}

// The math path adds its mask; a boolean one says where to look.
at::Tensor additive_mask(const at::Tensor& mask, at::ScalarType dtype) {
  return at::zeros_like(mask, mask.options().dtype(dtype))
      .masked_fill_(mask.logical_not(), -std::numeric_limits<double>::infinity());
}

}  // namespace

void scaled_dot_product_attention(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t first = stack->size() - op.schema().arguments().size();
  torch::jit::Stack call(stack->begin() + first, stack->end());
  if (call[kMask].isTensor() && call[kMask].toTensor().scalar_type() == at::kBool) {
    call[kMask] = additive_mask(call[kMask].toTensor(), call[kQuery].toTensor().scalar_type());
  }
  call.insert(call.begin() + kDropoutMask, c10::IValue());
  math_attention().callBoxed(call);
  stack->erase(stack->begin() + first, stack->end());
  stack->push_back(call[0]);
}

// An operator that only MPS has, with the arguments of the math path. Boxed, because both change
// together from one PyTorch to the next.
void scaled_dot_product_attention_math_for_mps(const c10::OperatorHandle&,
                                               torch::jit::Stack* stack) {
  math_attention().callBoxed(stack);
}

}  // namespace softmps
