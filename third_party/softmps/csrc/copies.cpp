// Copies within the device and between host and device. The MPS key outranks the CPU key, so both
// directions arrive here.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty_like.h>

#include "blocks.h"
#include "bridge.h"
#include "counters.h"
#include "device_index.h"
#include "kernels.h"
#include "metal.h"
#include "op_call.h"
#include "unfinished_copies.h"

namespace softmps {
namespace {

using at::Tensor;

void copy_on_host(const Tensor& self, const Tensor& source) {
  Bridge bridge(/*call=*/nullptr);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  Tensor to = bridge.to_host(self);
  to.copy_(bridge.to_host(source));
}

void copy_to_host(const Tensor& self, const Tensor& source, bool non_blocking) {
  // Metal converts on the way, and cannot convert to these.
  TORCH_CHECK_TYPE(self.scalar_type() != at::kDouble || source.scalar_type() == at::kDouble,
                   "Cannot convert a float64 Tensor to MPS as the MPS framework doesn't support "
                   "float64. Please use float32 instead.");
  TORCH_CHECK_TYPE(self.scalar_type() != at::kComplexDouble, "Trying to convert ",
                   self.scalar_type(),
                   " to the MPS backend but it does not have support for that dtype.");
  count_host_read();
  if (non_blocking && copies_may_be_unfinished()) {
    metal::Marker::record();  // a Mac commits the copy
    metal::wait(metal::Reason::kFallback);
    Tensor values = at::empty_like(self, self.suggest_memory_format());
    copy_on_host(values, source);
    copy_to_host_later(self, values);
    return;
  }
  metal::wait(metal::Reason::kUser);
  copy_on_host(self, source);
}

// PyTorch converts or gathers on the CPU first, and copies memory to memory.
bool needs_temporary(const Tensor& self, const Tensor& source) {
  return self.scalar_type() != source.scalar_type() || !source.is_non_overlapping_and_dense() ||
         source.is_conj() || source.is_neg() || source._is_zerotensor();
}

void copy_to_device(const Tensor& self, const Tensor& source, bool non_blocking) {
  ++counters().host_writes;
  const Tensor expanded = source.expand_as(self);
  const bool temporary = needs_temporary(self, expanded);
  // Between layouts it waits in any case.
  const bool waits = !non_blocking || (!temporary && self.strides() != expanded.strides());
  if (waits) {
    metal::wait(metal::Reason::kUser);
    copy_on_host(self, source);
    return;
  }
  metal::Marker::record();  // a Mac commits the copy
  metal::wait(metal::Reason::kFallback);
  copy_on_host(self, source);
  if (copies_may_be_unfinished()) lend_to_device(source, temporary);
}

}  // namespace

Tensor& copy_(Tensor& self, const Tensor& source, bool non_blocking) {
  TORCH_CHECK((self.is_mps() || self.is_cpu()) && (source.is_mps() || source.is_cpu()),
              "softmps: cannot copy from ", source.device(), " to ", self.device());
  if (self.is_same(source)) return self;
  OpCall call(named_op("aten::copy_"));
  call.reads(source);
  call.writes(self);
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
  OpCall call(named_op("aten::_local_scalar_dense"));
  call.reads(self);
  count_host_read();
  metal::wait(metal::Reason::kUser);
  Bridge bridge(/*call=*/nullptr);
  return at::_local_scalar_dense(bridge.to_host(self));
}

}  // namespace softmps
