#include "mps/device.h"

#include "checks.h"
#include "mps/device_facts.h"
#include "mps/kernels/norm_tables.h"
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

std::string describe(NSException* exception) {
  const char* reason = [[exception reason] UTF8String];
  return reason ? reason : [[exception name] UTF8String];
}

std::string unsupported_device(bool metal3, int argument_buffers_tier) {
  if (metal3 && argument_buffers_tier >= 2) return "";
  return text("this GPU has ", metal3 ? "" : "no ", "Metal 3 and argument buffers of tier ",
              argument_buffers_tier,
              "; the kernels need Metal 3 and tier 2, which every Mac with Apple silicon has and "
              "virtual machines may lack");
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
    const uint32_t type = STORAGE_FLOAT32;
    adam_library().pipeline("adam", {type, type, type, STORAGE_NONE, 0, 0, 0, 0});
    adam_library().pipeline("adam_start");
    for (const char* kernel : {"norm_partials", "norm_finish"})
      norm_library().pipeline(kernel, {NORM_L2, type, 0});
    scale_library().pipeline("scale", {type, type, type, 0, 0, 1, 0, 1});
  }
}

std::string unsupported_torch() {
  if (torch::mps::get_command_buffer && torch::mps::get_dispatch_queue) return "";
  return "this PyTorch lacks torch::mps::get_command_buffer; mps_ds needs PyTorch 2.10 or newer";
}

}  // namespace mps_ds::mps
