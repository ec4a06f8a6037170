#include "exercise.h"

#include <algorithm>
#include <cstdio>
#if __has_feature(address_sanitizer)
#include <sanitizer/lsan_interface.h>
#endif

const char* const kSource = R"MSL(
#include <metal_stdlib>
using namespace metal;
kernel void add_one(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  x[i] += 1;
}
struct Row { device float* data; ulong length; };
kernel void saxpy(device const Row* rows [[buffer(0)]], constant float& a [[buffer(1)]],
                  uint2 at [[thread_position_in_grid]]) {
  if (at.x < rows[at.y].length) rows[at.y].data[at.x] = a * rows[at.y].data[at.x] + 1;
}
kernel void group_sum(device float* x [[buffer(0)]], threadgroup float* scratch [[threadgroup(0)]],
                      uint t [[thread_position_in_threadgroup]],
                      uint g [[threadgroup_position_in_grid]],
                      uint n [[threads_per_threadgroup]]) {
  threadgroup float parts[32];
  scratch[t] = x[g * n + t];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float sum = simd_sum(scratch[n - 1 - t]);
  if (t % 32 == 0) parts[t / 32] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = 0; i < n / 32; ++i) x[g * n + t] += parts[i];
}
kernel void poke(device float* x [[buffer(0)]], constant int& where [[buffer(1)]],
                 uint t [[thread_position_in_threadgroup]]) {
  threadgroup float shared[64];
  shared[t] = 1;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  x[where + int(t)] = shared[t];
}
kernel void hang(device atomic_uint* x [[buffer(0)]]) {
  while (atomic_load_explicit(x, memory_order_relaxed) == 0) {}
}
constant float factor [[function_constant(0)]];
kernel void scale(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  x[i] *= factor;
}
)MSL";

id<MTLLibrary> Host::compile(const char* source) {
  Owned<MTLCompileOptions*> options([[MTLCompileOptions alloc] init]);
  [options.get() setLanguageVersion:MTLLanguageVersion3_1];
  NSError* error = nil;
  id<MTLLibrary> result = [device.get() newLibraryWithSource:[NSString stringWithUTF8String:source]
                                                     options:options
                                                       error:&error];
  if (!result) throw std::runtime_error([[error localizedDescription] UTF8String]);
  return result;
}

id<MTLComputePipelineState> Host::pipeline(const char* kernel) {
  Owned<id<MTLFunction>> function(
      [library.get() newFunctionWithName:[NSString stringWithUTF8String:kernel]]);
  NSError* error = nil;
  id<MTLComputePipelineState> result = [device.get() newComputePipelineStateWithFunction:function
                                                                                   error:&error];
  if (!result) throw std::runtime_error([[error localizedDescription] UTF8String]);
  return result;
}

id<MTLBuffer> Host::floats(size_t count, float value) {
  id<MTLBuffer> result = [device.get() newBufferWithLength:count * sizeof(float)
                                                   options:MTLResourceStorageModeShared];
  std::fill_n(floats_of(result), count, value);
  return result;
}

// What Foundation allocates once, when its classes are first used, and keeps without a pointer to
// it.
static void warm_up_foundation() {
#if __has_feature(address_sanitizer)
  __lsan::ScopedDisabler not_ours;
#endif
  @autoreleasepool {
    NSDictionary* info = [NSDictionary dictionaryWithObject:@"text"
                                                     forKey:NSLocalizedDescriptionKey];
    NSError* error = [NSError errorWithDomain:@"domain" code:1 userInfo:info];
    (void)[[error localizedDescription] UTF8String];
    (void)[NSFileManager defaultManager];
  }
}

// exercise CASE...: runs each, prints "CASE: ok". Without arguments: the names of all but the
// planted bugs.
int main(int count, char** arguments) {
  @autoreleasepool {
    warm_up_foundation();
    Cases cases;
    add_device_cases(cases);
    add_queue_cases(cases);
    if (count == 1) {
      for (const auto& entry : cases) puts(entry.first.c_str());
      return 0;
    }
    add_planted_bugs(cases);
    for (int i = 1; i < count; ++i) {
      const auto found = cases.find(arguments[i]);
      if (found == cases.end()) {
        fprintf(stderr, "there is no case '%s'\n", arguments[i]);
        return 2;
      }
      @autoreleasepool {
        try {
          found->second();
        } catch (const std::exception& error) {
          fprintf(stderr, "%s: %s\n", arguments[i], error.what());
          return 1;
        }
      }
      printf("%s: ok\n", arguments[i]);
    }
  }
  return 0;
}
