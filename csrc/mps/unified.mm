#include "mps/unified.h"

#import <Metal/Metal.h>

#include "checks.h"

namespace mps_ds::mps {

namespace {

const char* name_of(MTLStorageMode mode) {
  switch (mode) {
    case MTLStorageModeShared:
      return "shared";
    case MTLStorageModeManaged:
      return "managed";
    case MTLStorageModePrivate:
      return "private";
    case MTLStorageModeMemoryless:
      return "memoryless";
  }
  return "unknown";
}

}  // namespace

HostMemory host_memory(uintptr_t buffer) {
  MPS_DS_CHECK(buffer, "an empty storage has no buffer");
  @autoreleasepool {
    id<MTLBuffer> metal = (__bridge id<MTLBuffer>)reinterpret_cast<void*>(buffer);
    const MTLStorageMode mode = [metal storageMode];
    // A managed buffer's contents are a copy of their own: the two would drift apart.
    void* contents = mode == MTLStorageModeShared ? [metal contents] : nullptr;
    return {contents, [metal length], name_of(mode)};
  }
}

}  // namespace mps_ds::mps
