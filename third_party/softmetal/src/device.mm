#include <unistd.h>

#include <mutex>

#include "commands.h"
#include "process.h"

using softmetal::invalid;
using softmetal::to_string;

static uint64_t physical_memory() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

@implementation SMDevice

static SMDevice* g_device;

+ (SMDevice*)shared {
  return g_device;
}

+ (void)start {
  g_device = [SMDevice new];
}

// ---- facts --------------------------------------------------------------------------------------

- (NSString*)name {
  return @"softmetal (software Metal device on the CPU)";
}

- (uint64_t)registryID {
  return 1;
}

- (MTLSize)maxThreadsPerThreadgroup {
  return MTLSizeMake(SM_MAX_THREADS, SM_MAX_THREADS, SM_MAX_THREADS);
}

- (BOOL)isLowPower {
  return NO;
}

- (BOOL)isHeadless {
  return YES;
}

- (BOOL)isRemovable {
  return NO;
}

- (BOOL)hasUnifiedMemory {
  return YES;
}

- (uint64_t)recommendedMaxWorkingSetSize {
  return physical_memory() / 4 * 3;
}

- (MTLArgumentBuffersTier)argumentBuffersSupport {
  return MTLArgumentBuffersTier2;  // what kernels that follow pointers in buffers need
}

- (NSUInteger)maxThreadgroupMemoryLength {
  return SM_MAX_THREADGROUP_MEMORY;
}

- (NSUInteger)maxBufferLength {
  return physical_memory() / 2;
}

- (NSUInteger)currentAllocatedSize {
  return [SMBuffer allocatedBytes];
}

// An M1: what every Mac that this project supports has.
- (BOOL)supportsFamily:(MTLGPUFamily)family {
  return (family >= MTLGPUFamilyApple1 && family <= MTLGPUFamilyApple7) ||
         (family >= MTLGPUFamilyCommon1 && family <= MTLGPUFamilyCommon3) ||
         family == MTLGPUFamilyMac2 || family == MTLGPUFamilyMetal3;
}

// ---- buffers ------------------------------------------------------------------------------------

- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options {
  softmetal::check_not_forked();
  if (!length) invalid("newBufferWithLength:options: length must be greater than 0");
  const NSUInteger mode = (options & MTLResourceStorageModeMask) >> MTLResourceStorageModeShift;
  if (mode > MTLStorageModePrivate) {
    invalid("newBufferWithLength:options: storage mode " + std::to_string(mode) +
            " is not for buffers (shared, managed, private)");
  }
  if (length > [self maxBufferLength]) return nil;
  auto memory = softmetal::Memory::allocate(length);
  if (!memory) return nil;
  return [[SMBuffer alloc] initWithMemory:std::move(memory) options:options deallocator:nil];
}

- (id<MTLBuffer>)newBufferWithBytes:(const void*)bytes
                             length:(NSUInteger)length
                            options:(MTLResourceOptions)options {
  if (!bytes) invalid("newBufferWithBytes:length:options: bytes are NULL");
  SMBuffer* buffer = (SMBuffer*)[self newBufferWithLength:length options:options];
  if (buffer) memcpy(buffer->memory->own(), bytes, length);
  return buffer;
}

- (id<MTLBuffer>)newBufferWithBytesNoCopy:(void*)bytes
                                   length:(NSUInteger)length
                                  options:(MTLResourceOptions)options
                              deallocator:(void (^)(void*, NSUInteger))deallocator {
  softmetal::check_not_forked();
  const std::string method = "newBufferWithBytesNoCopy:length:options:deallocator: ";
  const size_t page = sysconf(_SC_PAGESIZE);
  if (!bytes) invalid(method + "pointer is NULL");
  if (!length) invalid(method + "length must be greater than 0");
  if (reinterpret_cast<uintptr_t>(bytes) % page || length % page) {
    invalid(method + "pointer and length must be multiples of the page size " +
            std::to_string(page) + ", got " +
            std::to_string(reinterpret_cast<uintptr_t>(bytes) % page) +
            " bytes behind a page and " + std::to_string(length) + " bytes");
  }
  if ((options & MTLResourceStorageModeMask) == MTLResourceStorageModePrivate) {
    invalid(method + "the storage mode cannot be private");
  }
  if (length > [self maxBufferLength]) return nil;
  return [[SMBuffer alloc] initWithMemory:softmetal::Memory::wrap(bytes, length)
                                  options:options
                              deallocator:deallocator];
}

// ---- libraries and pipelines --------------------------------------------------------------------

- (id<MTLLibrary>)newLibraryWithSource:(NSString*)source
                               options:(MTLCompileOptions*)options
                                 error:(NSError**)error {
  softmetal::check_not_forked();
  if (error) *error = nil;
  if (!source) invalid("newLibraryWithSource:nil");
  if (!options && softmetal::settings().strict) {
    invalid(
        "newLibraryWithSource:options:error: options are nil, which means fast math (no NaN, no "
        "infinity) and the newest language: pass MTLCompileOptions with mathMode, "
        "mathFloatingPointFunctions and languageVersion set");
  }
  if (!options) options = [[MTLCompileOptions new] autorelease];

  softmetal::MetalSource request;
  request.text = to_string(source);
  request.language_version = options.languageVersion;
  NSDictionary* macros = options.preprocessorMacros;
  for (NSString* name in macros) {
    request.macros[to_string(name)] = to_string([[macros objectForKey:name] description]);
  }
  std::string why;
  const softmetal::KernelLibrary* library = softmetal::find_or_compile(request, why);
  if (!library) {
    softmetal::set_error(error, MTLLibraryErrorDomain, MTLLibraryErrorCompileFailure, why);
    return nil;
  }
  return [[SMLibrary alloc] initWithLibrary:library];
}

- (id<MTLLibrary>)newLibraryWithURL:(NSURL*)url error:(NSError**)error {
  if (error) *error = nil;
  if (!url) invalid("newLibraryWithURL:nil");
  std::string why;
  const softmetal::KernelLibrary* library = softmetal::open_library(to_string([url path]), why);
  if (!library) {
    softmetal::set_error(error, MTLLibraryErrorDomain, MTLLibraryErrorFileNotFound, why);
    return nil;
  }
  return [[SMLibrary alloc] initWithLibrary:library];
}

- (id<MTLComputePipelineState>)newComputePipelineStateWithFunction:(id<MTLFunction>)function
                                                             error:(NSError**)error {
  if (!function) invalid("newComputePipelineStateWithFunction:nil");
  MTLComputePipelineDescriptor* descriptor = [[MTLComputePipelineDescriptor new] autorelease];
  descriptor.computeFunction = function;
  return [self newComputePipelineStateWithDescriptor:descriptor
                                             options:MTLPipelineOptionNone
                                          reflection:NULL
                                               error:error];
}

- (id<MTLComputePipelineState>)
    newComputePipelineStateWithDescriptor:(MTLComputePipelineDescriptor*)descriptor
                                  options:(MTLPipelineOption)options
                               reflection:(MTLAutoreleasedComputePipelineReflection*)reflection
                                    error:(NSError**)error {
  softmetal::check_not_forked();
  if (error) *error = nil;
  const std::string method = "newComputePipelineStateWithDescriptor:options:reflection:error: ";
  if (!descriptor) invalid(method + "the descriptor is nil");
  if (!descriptor.computeFunction) invalid(method + "computeFunction is nil");
  if (reflection || options != MTLPipelineOptionNone) {
    invalid(method + "the software device has no reflection");
  }
  const NSUInteger threads = descriptor.maxTotalThreadsPerThreadgroup;
  if (threads > SM_MAX_THREADS) {
    invalid(method + "maxTotalThreadsPerThreadgroup " + std::to_string(threads) + " is more than " +
            std::to_string(SM_MAX_THREADS));
  }
  const softmetal::Function& function =
      static_cast<SMFunction*>(descriptor.computeFunction)->function;
  if (const sm_fconst* missing =
          function.library->missing_constant(*function.kernel, *function.constants)) {
    softmetal::set_error(error, MTLLibraryErrorDomain, MTLLibraryErrorCompileFailure,
                         softmetal::describe_missing(*function.kernel, *missing));
    return nil;
  }
  return [[SMComputePipeline alloc] initWithDescriptor:descriptor];
}

// ---- queues -------------------------------------------------------------------------------------

- (id<MTLCommandQueue>)newCommandQueue {
  return [self newCommandQueueWithMaxCommandBufferCount:64];
}

- (id<MTLCommandQueue>)newCommandQueueWithMaxCommandBufferCount:(NSUInteger)count {
  softmetal::check_not_forked();
  if (!count) invalid("newCommandQueueWithMaxCommandBufferCount: 0");
  return [[SMCommandQueue alloc] initWithMaxCommandBufferCount:count];
}

@end

id<MTLDevice> MTLCreateSystemDefaultDevice(void) {
  softmetal::check_not_forked();
  static std::once_flag once;
  std::call_once(once, [] { [SMDevice start]; });
  return [g_device retain];
}

NSArray<id<MTLDevice>>* MTLCopyAllDevices(void) {
  id<MTLDevice> device = MTLCreateSystemDefaultDevice();
  NSArray* all = [[NSArray alloc] initWithObjects:device, nil];
  [device release];
  return all;
}
