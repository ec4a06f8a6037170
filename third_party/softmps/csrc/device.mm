#import <Foundation/Foundation.h>
#import <Metal/Metal.h>
#include <softmetal/softmetal.h>

#include "device.h"
#include "fork_guard.h"
#include "metal.h"

namespace softmps::metal {

id<MTLDevice> device() {
  require_not_forked();
  static id<MTLDevice> device = [] {
    watch_for_fork();
    return MTLCreateSystemDefaultDevice();
  }();
  return device;
}

void* new_buffer(size_t length) {
  @autoreleasepool {
    return (void*)[device() newBufferWithLength:length options:MTLResourceStorageModeShared];
  }
}

void* own_contents(void* buffer) {
  return softmetal::own_contents(buffer);
}
void* contents(void* buffer) {
  return [(id<MTLBuffer>)buffer contents];
}
uint64_t gpu_address(void* buffer) {
  return [(id<MTLBuffer>)buffer gpuAddress];
}
size_t length(void* buffer) {
  return [(id<MTLBuffer>)buffer length];
}
void retain(void* buffer) {
  [(id<MTLBuffer>)buffer retain];
}

void release(void* buffer) {
  // A forked child has neither the locks nor the threads of the device: it leaks what it inherited.
  if (in_forked_child()) return;
  @autoreleasepool {
    [(id<MTLBuffer>)buffer release];
  }
}

std::string device_name() {
  @autoreleasepool {
    return [[device() name] UTF8String];
  }
}
size_t recommended_max_working_set() {
  return [device() recommendedMaxWorkingSetSize];
}
size_t max_buffer_length() {
  return [device() maxBufferLength];
}

uint64_t next_ticket() {
  return softmetal::next_ticket();
}
void touched(void* buffer, bool written, const char* by, uint64_t ticket) {
  softmetal::touched(buffer, written, by, ticket);
}

void trim() {
  softmetal::trim();
}

}  // namespace softmps::metal
