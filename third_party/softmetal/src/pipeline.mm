#include <algorithm>

#include "objects.h"

@implementation MTLComputePipelineReflection
@end

@interface SMComputePipelineDescriptor : MTLComputePipelineDescriptor {
  NSString* _label;
  id<MTLFunction> _computeFunction;
  BOOL _threadGroupSizeIsMultipleOfThreadExecutionWidth;
  NSUInteger _maxTotalThreadsPerThreadgroup;
}
@end

@implementation MTLComputePipelineDescriptor
@dynamic label, computeFunction, threadGroupSizeIsMultipleOfThreadExecutionWidth,
    maxTotalThreadsPerThreadgroup;

// The interface has no instance variables, as Apple's; instances are of a subclass that has them.
+ (instancetype)allocWithZone:(NSZone*)zone {
  if (self == [MTLComputePipelineDescriptor class]) {
    return [SMComputePipelineDescriptor allocWithZone:zone];
  }
  return [super allocWithZone:zone];
}

- (id)copyWithZone:(NSZone*)zone {
  MTLComputePipelineDescriptor* copy = [[MTLComputePipelineDescriptor allocWithZone:zone] init];
  copy.label = self.label;
  copy.computeFunction = self.computeFunction;
  copy.threadGroupSizeIsMultipleOfThreadExecutionWidth =
      self.threadGroupSizeIsMultipleOfThreadExecutionWidth;
  copy.maxTotalThreadsPerThreadgroup = self.maxTotalThreadsPerThreadgroup;
  return copy;
}

- (void)reset {
  self.label = nil;
  self.computeFunction = nil;
  self.threadGroupSizeIsMultipleOfThreadExecutionWidth = NO;
  self.maxTotalThreadsPerThreadgroup = 0;
}

@end

@implementation SMComputePipelineDescriptor
@synthesize label = _label;
@synthesize computeFunction = _computeFunction;
@synthesize threadGroupSizeIsMultipleOfThreadExecutionWidth =
    _threadGroupSizeIsMultipleOfThreadExecutionWidth;
@synthesize maxTotalThreadsPerThreadgroup = _maxTotalThreadsPerThreadgroup;

- (void)dealloc {
  [_label release];
  [_computeFunction release];
  [super dealloc];
}

@end

@implementation SMComputePipeline
@synthesize label = _label;

- (instancetype)initWithDescriptor:(MTLComputePipelineDescriptor*)descriptor {
  if ((self = [super init])) {
    function = static_cast<SMFunction*>(descriptor.computeFunction)->function;
    counters = &softmetal::counting::kernel(function.kernel->name);
    _maxThreads = function.kernel->max_threads;
    const NSUInteger asked = descriptor.maxTotalThreadsPerThreadgroup;
    if (asked) _maxThreads = std::min(_maxThreads, asked);
    wholeSimdgroups = descriptor.threadGroupSizeIsMultipleOfThreadExecutionWidth;
    _label = [descriptor.label copy];
  }
  return self;
}

- (void)dealloc {
  [_label release];
  [super dealloc];
}

- (id<MTLDevice>)device {
  return [SMDevice shared];
}

- (NSUInteger)maxTotalThreadsPerThreadgroup {
  return std::min<NSUInteger>(_maxThreads, softmetal::settings().max_threads);
}

- (NSUInteger)threadExecutionWidth {
  return SM_SIMD;
}

- (NSUInteger)staticThreadgroupMemoryLength {
  return function.kernel->static_threadgroup_memory;
}

@end
