// The kernels that are registered for MPS one by one (kernels.cpp has the list): what the fallback
// cannot do, because it makes, moves or re-interprets storage.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/stack.h>

#include <optional>

namespace softmps {

// factories.cpp
at::Tensor empty_memory_format(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                               std::optional<at::Layout> layout, std::optional<at::Device> device,
                               std::optional<bool> pin_memory,
                               std::optional<at::MemoryFormat> memory_format);
at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                         std::optional<at::Device> device, std::optional<bool> pin_memory);
at::Tensor efficientzerotensor(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                               std::optional<at::Layout> layout, std::optional<at::Device> device,
                               std::optional<bool> pin_memory);

// views.cpp
at::Tensor as_strided(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride,
                      std::optional<int64_t> storage_offset);
at::Tensor view(const at::Tensor& self, at::IntArrayRef size);
at::Tensor reshape_alias(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride);

// storage.cpp
const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size,
                          std::optional<at::MemoryFormat> memory_format);
at::Tensor& set_storage_offset(at::Tensor& self, c10::Storage source, int64_t storage_offset,
                               at::IntArrayRef size, at::IntArrayRef stride);
at::Tensor& set_storage(at::Tensor& self, c10::Storage source);
at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source);
at::Tensor& set_empty(at::Tensor& self);

// copies.cpp
at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool non_blocking);
at::Tensor copy_from(const at::Tensor& self, const at::Tensor& destination, bool non_blocking);
at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& destination);
at::Scalar local_scalar_dense(const at::Tensor& self);

// attention.cpp
void scaled_dot_product_attention(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void scaled_dot_product_attention_math_for_mps(const c10::OperatorHandle& op,
                                               torch::jit::Stack* stack);

}  // namespace softmps
