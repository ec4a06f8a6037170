#include "mps/device.h"

#include "checks.h"
#include "mps/device_facts.h"
#include "mps/library.h"
#include "mps/torch_mps.h"

namespace mps_ds::mps {

id<MTLDevice> device() {
  // It needs CoreGraphics in the process, which PyTorch's MPS frameworks bring.
  static id<MTLDevice> const system = MTLCreateSystemDefaultDevice();
  MPS_DS_CHECK(system, "this machine has no Metal device");
  return system;
}

std::string describe(NSError* error) {
  return error ? [[error localizedDescription] UTF8String] : "no reason given";
}

DeviceFacts device_facts() {
  @autoreleasepool {
    id<MTLDevice> d = device();
    return {[[d name] UTF8String],
            static_cast<bool>([d hasUnifiedMemory]),
            static_cast<bool>([d supportsFamily:MTLGPUFamilyMetal3]),
            [d argumentBuffersSupport] == MTLArgumentBuffersTier2 ? 2 : 1,
            [d recommendedMaxWorkingSetSize],
            [d maxBufferLength],
            [d maxThreadgroupMemoryLength]};
  }
}

void warm_up() {
  @autoreleasepool {
    for (const char* kernel : {"adam_float32", "adam_strided_float32"})
      adam_library().pipeline(kernel);
  }
}

std::string unsupported_torch() {
  if (torch::mps::get_command_buffer && torch::mps::get_dispatch_queue) return "";
  return "this PyTorch lacks torch::mps::get_command_buffer; mps_ds needs PyTorch 2.10 or newer";
}

}  // namespace mps_ds::mps
