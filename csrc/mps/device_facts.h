// What Python may know of the device; free of Objective-C, for module.cpp.
#pragma once

#include <cstdint>
#include <string>

namespace mps_ds::mps {

struct DeviceFacts {
  std::string name;
  bool unified_memory;
  bool metal3;                // the family MTLGPUFamilyMetal3
  int argument_buffers_tier;  // kernels that follow pointers in tables need 2
  uint64_t recommended_working_set_bytes;
  uint64_t max_buffer_bytes;
  uint64_t max_threadgroup_memory_bytes;
};

DeviceFacts device_facts();

// Empty, or why the kernels cannot run on such a device.
std::string unsupported_device(bool metal3, int argument_buffers_tier);

// Compiles the libraries, and the pipelines of plain float32, now rather than at first use.
void warm_up();

// Empty, or why this PyTorch cannot serve the Metal operations.
std::string unsupported_torch();

}  // namespace mps_ds::mps
