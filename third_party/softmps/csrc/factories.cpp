#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/TensorFactories.h>

#include "blocks.h"
#include "device_index.h"
#include "dtypes.h"
#include "kernels.h"

namespace softmps {
namespace {

using at::IntArrayRef;
using at::Tensor;

constexpr c10::DispatchKeySet kMpsKeys(c10::DispatchKey::MPS);
constexpr size_t kMaxDimensions = 16;

// Checks what all factories check, and returns the dtype.
at::ScalarType check_options(IntArrayRef size, std::optional<at::ScalarType> dtype,
                             std::optional<at::Layout> layout, std::optional<at::Device> device,
                             std::optional<bool> pin_memory) {
  if (device) require_mps0(*device);
  TORCH_CHECK_NOT_IMPLEMENTED(c10::layout_or_default(layout) == at::kStrided,
                              "only strided tensors are supported on MPS");
  TORCH_CHECK(size.size() <= kMaxDimensions,
              "MPS supports tensors with dimensions <= ", kMaxDimensions, ", but got ", size.size(),
              ".");
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  const auto type = c10::dtype_or_default(dtype);
  require_mps_dtype(type);
  return type;
}

Tensor filled_if_deterministic(Tensor tensor) {
  const auto& context = at::globalContext();
  if (context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory()) {
    at::native::fill_empty_deterministic_(tensor);
  }
  return tensor;
}

}  // namespace

Tensor empty_memory_format(IntArrayRef size, std::optional<at::ScalarType> dtype,
                           std::optional<at::Layout> layout, std::optional<at::Device> device,
                           std::optional<bool> pin_memory,
                           std::optional<at::MemoryFormat> memory_format) {
  const auto type = check_options(size, dtype, layout, device, pin_memory);
  return filled_if_deterministic(
      at::detail::empty_generic(size, mps_allocator(), kMpsKeys, type, memory_format));
}

Tensor empty_strided(IntArrayRef size, IntArrayRef stride, std::optional<at::ScalarType> dtype,
                     std::optional<at::Layout> layout, std::optional<at::Device> device,
                     std::optional<bool> pin_memory) {
  const auto type = check_options(size, dtype, layout, device, pin_memory);
  return filled_if_deterministic(
      at::detail::empty_strided_generic(size, stride, mps_allocator(), kMpsKeys, type));
}

// A tensor of zeros without memory. (The CPU kernel would give it a CPU storage.)
Tensor efficientzerotensor(IntArrayRef size, std::optional<at::ScalarType> dtype,
                           std::optional<at::Layout> layout, std::optional<at::Device> device,
                           std::optional<bool> pin_memory) {
  static at::native::ZeroTensorAllocator allocator(kMps0);
  const auto type = check_options(size, dtype, layout, device, pin_memory);
  return at::detail::empty_generic(size, &allocator, kMpsKeys.add(c10::DispatchKey::ZeroTensor),
                                   type, std::nullopt);
}

}  // namespace softmps
