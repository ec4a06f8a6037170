// The device guard: current device, streams, and the events of torch.Event("mps").
#include <c10/core/DeviceCapability.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <memory>

#include "blocks.h"
#include "device_index.h"
#include "metal.h"

namespace softmps {
namespace {

using c10::Device;
using c10::DeviceIndex;

struct GuardEvent {
  bool enable_timing;
  std::shared_ptr<metal::Marker> marker;
};

constexpr uint64_t bit(int index) {
  return uint64_t{1} << index;
}
constexpr uint64_t kSupportedTypes =
    bit(c10::kIndex_Byte) | bit(c10::kIndex_Char) | bit(c10::kIndex_Short) | bit(c10::kIndex_Int) |
    bit(c10::kIndex_Long) | bit(c10::kIndex_Half) | bit(c10::kIndex_Float) |
    bit(c10::kIndex_ComplexHalf) | bit(c10::kIndex_ComplexFloat) | bit(c10::kIndex_Bool) |
    bit(c10::kIndex_BFloat16) | bit(c10::kIndex_UInt16) | bit(c10::kIndex_UInt32) |
    bit(c10::kIndex_UInt64);

c10::Stream default_stream() {
  return c10::Stream(c10::Stream::DEFAULT, kMps0);
}

struct MpsGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::MPS; }
  Device exchangeDevice(Device device) const override {
    require_mps0(device);
    return kMps0;
  }
  Device getDevice() const override { return kMps0; }
  void setDevice(Device device) const override { require_mps0(device); }
  void uncheckedSetDevice(Device) const noexcept override {}
  DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::DeviceCapability getDeviceCapability(Device) const override {
    c10::DeviceCapability capability;
    capability.capability_data.capability_bits = kSupportedTypes;
    return capability;
  }

  c10::Stream getStream(Device) const override { return default_stream(); }
  c10::Stream getDefaultStream(Device) const override { return default_stream(); }
  c10::Stream getNewStream(Device, int) const override { return default_stream(); }
  c10::Stream exchangeStream(c10::Stream) const override { return default_stream(); }
  bool queryStream(const c10::Stream&) const override { return !metal::pending(); }
  void synchronizeStream(const c10::Stream&) const override { metal::wait(metal::Reason::kUser); }
  void synchronizeDevice(const DeviceIndex) const override { metal::wait(metal::Reason::kUser); }

  void record(void** event, const c10::Stream& stream, const DeviceIndex device_index,
              const c10::EventFlag flag) const override {
    TORCH_CHECK(device_index == -1 || device_index == stream.device_index(), "Event device index ",
                static_cast<int>(device_index), " does not match recording stream's device index ",
                static_cast<int>(stream.device_index()), ".");
    auto marker = metal::Marker::record();
    if (!*event) *event = new GuardEvent{flag == c10::EventFlag::BACKEND_DEFAULT, nullptr};
    static_cast<GuardEvent*>(*event)->marker = std::move(marker);
  }
  void block(void*, const c10::Stream&) const override {}  // one stream: order does it
  bool queryEvent(void* event) const override {
    return !event || static_cast<GuardEvent*>(event)->marker->complete();
  }
  void synchronizeEvent(void* event) const override {
    if (event) static_cast<GuardEvent*>(event)->marker->wait();
  }
  void destroyEvent(void* event, const DeviceIndex) const noexcept override {
    delete static_cast<GuardEvent*>(event);
  }
  double elapsedTime(void* start, void* end, const DeviceIndex) const override {
    TORCH_CHECK(start && end, "Both events must be recorded before calculating elapsed time.");
    metal::wait(metal::Reason::kUser);
    const double seconds = static_cast<GuardEvent*>(end)->marker->gpu_end_time() -
                           static_cast<GuardEvent*>(start)->marker->gpu_end_time();
    return seconds * 1e3;
  }
};
C10_REGISTER_GUARD_IMPL(MPS, MpsGuard)

}  // namespace
}  // namespace softmps
