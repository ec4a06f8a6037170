#include <Block.h>

#include "objects.h"

using softmetal::invalid;

static std::atomic<NSUInteger> g_allocated{0};

namespace softmetal {

void* own_contents(void* buffer) {
  return ((SMBuffer*)buffer)->memory->own();
}

void touched(void* buffer, bool written, const char* by, uint64_t ticket) {
  EarlyAccess::touch(*((SMBuffer*)buffer)->memory, written, by, ticket);
}

}  // namespace softmetal

@implementation SMBuffer

+ (NSUInteger)allocatedBytes {
  return g_allocated;
}

- (instancetype)initWithMemory:(std::shared_ptr<softmetal::Memory>)bytes
                       options:(MTLResourceOptions)options
                   deallocator:(void (^)(void*, NSUInteger))deallocator {
  if ((self = [super init])) {
    memory = std::move(bytes);
    _options = options;
    if (deallocator) _deallocator = Block_copy(deallocator);
    g_allocated += memory->length();
    softmetal::counting::add(softmetal::counting::global().buffers);
  }
  return self;
}

// Command buffers that only declared this buffer keep its address from being used again, not its
// contents from being lost: a kernel that runs later and uses it is stopped.
- (void)dealloc {
  g_allocated -= memory->length();
  memory->release();
  if (_deallocator) {
    _deallocator(memory->cpu(), memory->length());
    Block_release(_deallocator);
  }
  [super dealloc];
}

- (id<MTLDevice>)device {
  return [SMDevice shared];
}

- (NSUInteger)length {
  return memory->length();
}

- (NSUInteger)allocatedSize {
  return memory->length();
}

- (void*)contents {
  if ([self storageMode] == MTLStorageModePrivate) return NULL;
  softmetal::EarlyAccess::expose(*memory);
  return memory->cpu();
}

- (uint64_t)gpuAddress {
  return reinterpret_cast<uint64_t>(memory->gpu());
}

- (MTLResourceOptions)resourceOptions {
  return _options;
}

- (MTLCPUCacheMode)cpuCacheMode {
  return static_cast<MTLCPUCacheMode>(_options & 0xf);
}

- (MTLStorageMode)storageMode {
  return static_cast<MTLStorageMode>((_options & MTLResourceStorageModeMask) >>
                                     MTLResourceStorageModeShift);
}

- (MTLHazardTrackingMode)hazardTrackingMode {
  const auto mode =
      static_cast<MTLHazardTrackingMode>((_options >> MTLResourceHazardTrackingModeShift) & 3);
  return mode == MTLHazardTrackingModeDefault ? MTLHazardTrackingModeTracked : mode;
}

- (void)didModifyRange:(NSRange)range {
  if ([self storageMode] != MTLStorageModeManaged) {
    invalid("didModifyRange: is for MTLStorageModeManaged, buffer '" + memory->label() +
            "' has another storage mode");
  }
  if (range.location > memory->length() || range.length > memory->length() - range.location) {
    invalid("didModifyRange: {" + std::to_string(range.location) + ", " +
            std::to_string(range.length) + "} is beyond the " + std::to_string(memory->length()) +
            " bytes of buffer '" + memory->label() + "'");
  }
}

- (NSString*)label {
  const std::string label = memory->label();
  return label.empty() ? nil : softmetal::to_ns(label);
}

- (void)setLabel:(NSString*)label {
  memory->set_label(softmetal::to_string(label));
}

@end
