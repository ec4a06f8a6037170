// Copies within the device and between host and device. The MPS key outranks the CPU key, so both
// directions arrive here.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_local_scalar_dense.h>

#include <memory>

#include "blocks.h"
#include "bridge.h"
#include "counters.h"
#include "device_index.h"
#include "kernels.h"
#include "metal.h"

namespace softmps {
namespace {

using at::Tensor;

void copy_on_host(const Tensor& self, const Tensor& source) {
  Bridge bridge;
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  Tensor to = bridge.to_host(self);
  to.copy_(bridge.to_host(source));
}

// A non-blocking copy to the host is a plain memory copy: same type, no gaps, no lazy bits.
bool is_memory_copy(const Tensor& self, const Tensor& source) {
  return self.scalar_type() == source.scalar_type() && self.sizes() == source.sizes() &&
         self.is_contiguous() && source.is_contiguous() && !source.is_conj() && !source.is_neg() &&
         !source._is_zerotensor();
}

void copy_to_host_later(const Tensor& self, const Tensor& source) {
  metal::copy_to_host_later(block_of(source.storage())->buffer,
                            source.storage_offset() * source.itemsize(), self.data_ptr(),
                            self.nbytes(), std::make_shared<c10::Storage>(self.storage()));
}

void copy_to_host(const Tensor& self, const Tensor& source, bool non_blocking) {
  // Metal converts on the way, and cannot convert to these.
  TORCH_CHECK_TYPE(self.scalar_type() != at::kDouble || source.scalar_type() == at::kDouble,
                   "Cannot convert a float64 Tensor to MPS as the MPS framework doesn't support "
                   "float64. Please use float32 instead.");
  TORCH_CHECK_TYPE(self.scalar_type() != at::kComplexDouble, "Trying to convert ",
                   self.scalar_type(),
                   " to the MPS backend but it does not have support for that dtype.");
  ++counters().host_reads;
  if (non_blocking && metal::pending() && is_memory_copy(self, source)) {
    copy_to_host_later(self, source);
    return;
  }
  metal::wait(metal::Reason::kUser);
  copy_on_host(self, source);
}

void copy_to_device(const Tensor& self, const Tensor& source, bool non_blocking) {
  ++counters().host_writes;
  // A Mac waits for a blocking copy. Here pending work must be over in any case.
  metal::wait(non_blocking ? metal::Reason::kFallback : metal::Reason::kUser);
  copy_on_host(self, source);
}

}  // namespace

Tensor& copy_(Tensor& self, const Tensor& source, bool non_blocking) {
  TORCH_CHECK((self.is_mps() || self.is_cpu()) && (source.is_mps() || source.is_cpu()),
              "softmps: cannot copy from ", source.device(), " to ", self.device());
  if (self.is_same(source)) return self;
  if (self.numel() == 0) {
    copy_on_host(self, source);  // checks the shapes
  } else if (self.is_cpu()) {
    copy_to_host(self, source, non_blocking);
  } else if (source.is_cpu()) {
    copy_to_device(self, source, non_blocking);
  } else {
    metal::wait(metal::Reason::kFallback);
    copy_on_host(self, source);
  }
  return self;
}

Tensor copy_from(const Tensor& self, const Tensor& destination, bool non_blocking) {
  Tensor to = destination;
  return copy_(to, self, non_blocking);
}

Tensor copy_from_and_resize(const Tensor& self, const Tensor& destination) {
  destination.resize_(self.sizes());
  return copy_from(self, destination, false);
}

at::Scalar local_scalar_dense(const Tensor& self) {
  ++counters().host_reads;
  metal::wait(metal::Reason::kUser);
  Bridge bridge;
  return at::_local_scalar_dense(bridge.to_host(self));
}

}  // namespace softmps
