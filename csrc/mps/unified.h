// What the CPU can reach of a Metal buffer; free of Objective-C, for module.cpp.
#pragma once

#include <cstdint>
#include <string>

namespace mps_ds::mps {

struct HostMemory {
  void* contents;            // null where the CPU cannot reach the buffer
  uint64_t length;           // bytes of the buffer, at least those of the storage
  std::string storage_mode;  // "shared", "managed", "private" or "memoryless"
};

// `buffer`: an id<MTLBuffer>, which is what the data pointer of an MPS storage is. The pointer is
// valid while PyTorch holds the storage; nothing is retained here.
HostMemory host_memory(uintptr_t buffer);

}  // namespace mps_ds::mps
