#pragma once

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

namespace softmps {

// There is one device. A Mac takes mps:1 for mps:0 without a word; that hides a bug, so it is
// refused.
inline void require_device_index(c10::DeviceIndex index) {
  TORCH_CHECK(index <= 0, "MPS has one device, mps:0, but got mps:", static_cast<int>(index));
}

inline void require_mps0(c10::Device device) {
  TORCH_CHECK(device.is_mps(), "Expected a MPS device, but got ", device);
  require_device_index(device.index());
}

}  // namespace softmps
