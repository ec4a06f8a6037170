// What is registered for MPS. All other operators reach the fallback.
#include "kernels.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "fallback.h"
#include "missing_on_mac.h"

namespace softmps {
namespace {

using c10::DispatchKey;
using torch::CppFunction;

bool has_composite_kernel(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
         op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional) ||
         op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd);
}

// Composite on every device, but chooses its backend from the device type and knows no MPS on
// Linux.
bool chooses_by_device(const std::string& name) {
  return name == "aten::convolution" || name == "aten::convolution_backward";
}

// An operator with a CPU kernel of its own *and* a composite one (structured ones, layer norm...)
// would take the composite on MPS: slower, and other roundings than the CPU's.
void prefer_cpu_kernels_to_composites(torch::Library& library) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const auto op = dispatcher.findOp(name);
    if (!op || !op->hasSchema() || op->hasKernelForDispatchKey(DispatchKey::MPS)) continue;
    const std::string full_name = toString(name);
    if (ops_missing_on_mac().count(full_name)) {
      library.impl(full_name.c_str(), CppFunction::makeFromBoxedFunction<&run_missing_op>());
    } else if ((op->hasKernelForDispatchKey(DispatchKey::CPU) && has_composite_kernel(*op)) ||
               chooses_by_device(name.name)) {
      library.impl(full_name.c_str(), CppFunction::makeFromBoxedFunction<&run_on_cpu>());
    }
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, MPS, m) {
  m.impl("empty.memory_format", TORCH_FN(empty_memory_format));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("_efficientzerotensor", TORCH_FN(efficientzerotensor));
  m.impl("as_strided", TORCH_FN(as_strided));
  m.impl("view", TORCH_FN(view));
  m.impl("_reshape_alias", TORCH_FN(reshape_alias));
  m.impl("resize_", TORCH_FN(resize_));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage_offset));
  m.impl("set_.source_Storage", TORCH_FN(set_storage));
  m.impl("set_.source_Tensor", TORCH_FN(set_tensor));
  m.impl("set_", TORCH_FN(set_empty));
  m.impl("copy_", TORCH_FN(copy_));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
  m.impl("scaled_dot_product_attention",
         CppFunction::makeFromBoxedFunction<&scaled_dot_product_attention>());
  m.impl("_scaled_dot_product_attention_math_for_mps",
         CppFunction::makeFromBoxedFunction<&scaled_dot_product_attention_math_for_mps>());
  prefer_cpu_kernels_to_composites(m);
}

TORCH_LIBRARY_IMPL(aten, AutogradMPS, m) {
  m.impl("scaled_dot_product_attention",
         CppFunction::makeFromBoxedFunction<&scaled_dot_product_attention>());
}

}  // namespace softmps
