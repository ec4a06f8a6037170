#include "hooks.h"

#include <ATen/core/Generator.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/detail/MPSHooksInterface.h>

#include <cstring>

#include "blocks.h"
#include "buffer_pool.h"
#include "device_index.h"
#include "events.h"
#include "generator.h"
#include "metal.h"
#include "profiler.h"

namespace softmps {
namespace {

using at::DeviceIndex;
using at::MPSHooksRegistry;            // named by the registration macro
using at::RegistererMPSHooksRegistry;  //

// Stateless on purpose: install_hooks() may graft its vtable onto another object.
struct MPSHooks final : at::MPSHooksInterface {
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasMPS() const override { return true; }
  bool isOnMacOSorNewer(unsigned major, unsigned minor) const override {
    return major < 15 || (major == 15 && minor <= 5);  // we stand for macOS 15.5
  }

  DeviceIndex deviceCount() const override { return 1; }
  void setCurrentDevice(DeviceIndex index) const override { require_device_index(index); }
  DeviceIndex getCurrentDevice() const override { return 0; }
  DeviceIndex exchangeDevice(DeviceIndex index) const override {
    require_device_index(index);
    return 0;
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex index) const override {
    require_device_index(index);
    return 0;
  }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }

  const at::Generator& getDefaultGenerator(DeviceIndex) const override {
    return default_generator();
  }
  at::Generator getNewGenerator(DeviceIndex) const override { return new_generator(); }

  at::Allocator* getMPSDeviceAllocator() const override { return mps_allocator(); }
  at::Allocator* getPinnedMemoryAllocator() const override { return mps_allocator(); }
  at::Device getDeviceFromPtr(void*) const override { return kMps0; }

  void deviceSynchronize() const override { metal::wait(metal::Reason::kUser); }
  void commitStream() const override { metal::commit(metal::Reason::kUser); }
  void* getCommandBuffer() const override { return metal::command_buffer(); }
  void* getDispatchQueue() const override { return metal::dispatch_queue(); }

  void emptyCache() const override {
    metal::wait(metal::Reason::kUser);
    buffer_pool::release_all();
    metal::trim();
    reset_driver_memory();
  }
  size_t getCurrentAllocatedMemory() const override { return allocated_memory(); }
  size_t getDriverAllocatedMemory() const override { return driver_memory(); }
  size_t getRecommendedMaxMemory() const override { return metal::recommended_max_working_set(); }
  size_t getMaxBufferLength() const override { return metal::max_buffer_length(); }
  void setMemoryFraction(double ratio) const override { set_memory_fraction(ratio); }

  void profilerStartTrace(const std::string& modes, bool) const override { profiler::start(modes); }
  void profilerStopTrace() const override { profiler::stop(); }

  uint32_t acquireEvent(bool enable_timing) const override {
    return events::acquire(enable_timing);
  }
  void releaseEvent(uint32_t id) const override { events::release(id); }
  void recordEvent(uint32_t id) const override { events::record(id); }
  void waitForEvent(uint32_t id) const override { events::wait(id); }
  void synchronizeEvent(uint32_t id) const override { events::synchronize(id); }
  bool queryEvent(uint32_t id) const override { return events::query(id); }
  double elapsedTimeOfEvents(uint32_t start, uint32_t end) const override {
    return events::elapsed_milliseconds(start, end);
  }
};
C10_REGISTER_CLASS(MPSHooksRegistry, MPSHooks, MPSHooks)

// PyTorch refuses two accelerators in one process, and takes one that it was built for as there,
// whether or not the machine has it. Its wheels for Linux are CUDA builds: where there is no GPU,
// the stateless hooks of CUDA get the vtable of the stub that builds without CUDA have.
void hide_absent_cuda() {
  const at::CUDAHooksInterface& cuda = at::detail::getCUDAHooks();
  if (!cuda.isBuilt()) return;
  TORCH_CHECK(!cuda.hasCUDA(),
              "softmps: this machine has a CUDA device, and PyTorch serves one accelerator in a "
              "process. To use the software mps device, hide it with CUDA_VISIBLE_DEVICES=''");
  static const at::CUDAHooksInterface absent;
  std::memcpy(const_cast<void*>(static_cast<const void*>(&cuda)), static_cast<const void*>(&absent),
              sizeof(void*));
}

}  // namespace

void install_hooks() {
  hide_absent_cuda();
  // getMPSHooks() caches its first answer. If something asked before this library was loaded, that
  // is PyTorch's stateless stub, which lives for ever: give it the vtable of our stateless hooks.
  const at::MPSHooksInterface& cached = at::detail::getMPSHooks();
  if (cached.hasMPS()) return;
  static const MPSHooks ours;
  std::memcpy(const_cast<void*>(static_cast<const void*>(&cached)), static_cast<const void*>(&ours),
              sizeof(void*));
}

}  // namespace softmps
