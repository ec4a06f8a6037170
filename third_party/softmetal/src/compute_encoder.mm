#include "commands.h"
#include "dispatch_checks.h"

using softmetal::invalid;
using softmetal::to_string;
namespace counting = softmetal::counting;

@implementation SMComputeEncoder
@synthesize label = _label;

- (instancetype)initWithCommandBuffer:(SMCommandBuffer*)buffer dispatchType:(MTLDispatchType)type {
  if ((self = [super init])) {
    _commandBuffer = [buffer retain];
    _dispatchType = type;
    _pass.concurrent = type == MTLDispatchTypeConcurrent;
    _threadgroupLengths.fill(0);
    _declared = std::make_shared<std::vector<softmetal::Access>>();
  }
  return self;
}

- (void)dealloc {
  if (!_ended) {  // an error, but dealloc must not throw: commit does
    _commandBuffer->abandoned = [self describe];
    _commandBuffer->openEncoder = nil;
  }
  [_pipeline release];
  [_label release];
  [_commandBuffer release];
  [super dealloc];
}

- (id<MTLDevice>)device {
  return [SMDevice shared];
}

- (MTLDispatchType)dispatchType {
  return _dispatchType;
}

- (std::string)describe {
  std::string text = _label ? "compute encoder '" + to_string(_label) + "'" : "a compute encoder";
  if (_pipeline) text += std::string(" (kernel '") + _pipeline->function.kernel->name + "')";
  return text;
}

// Throws: "<method>: <what>, in compute encoder ...".
- (void)refuse:(const char*)method because:(const std::string&)what {
  invalid(std::string(method) + ": " + what + ", in " + [self describe]);
}

- (void)requireOpen:(const char*)method {
  if (_ended) [self refuse:method because:"called after endEncoding"];
}

- (void)requireIndex:(NSUInteger)index method:(const char*)method {
  if (index >= SM_MAX_BUFFERS) {
    [self refuse:method
         because:"index " + std::to_string(index) + " is not below " +
                 std::to_string(SM_MAX_BUFFERS)];
  }
}

- (void)endEncoding {
  [self requireOpen:"endEncoding"];
  if (_debugGroups) {
    [self refuse:"endEncoding"
         because:std::to_string(_debugGroups) + " pushDebugGroup: without popDebugGroup"];
  }
  _ended = YES;
  _commandBuffer->openEncoder = nil;
  _commandBuffer->passes.push_back(std::move(_pass));
}

- (void)insertDebugSignpost:(NSString*)string {
  (void)string;
  [self requireOpen:"insertDebugSignpost:"];
}

- (void)pushDebugGroup:(NSString*)string {
  (void)string;
  [self requireOpen:"pushDebugGroup:"];
  ++_debugGroups;
}

- (void)popDebugGroup {
  [self requireOpen:"popDebugGroup"];
  if (!_debugGroups) [self refuse:"popDebugGroup" because:"no pushDebugGroup: before it"];
  --_debugGroups;
}

// ---- state of the encoder: kept from dispatch to dispatch, also when the pipeline changes -------

- (void)setComputePipelineState:(id<MTLComputePipelineState>)state {
  static const char* method = "setComputePipelineState:";
  [self requireOpen:method];
  if (!state) [self refuse:method because:"the pipeline is nil"];
  [(id)state retain];
  [_pipeline release];
  _pipeline = (SMComputePipeline*)state;
}

- (void)setBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index {
  static const char* method = "setBuffer:offset:atIndex:";
  [self requireOpen:method];
  [self requireIndex:index method:method];
  softmetal::Binding& binding = _bindings[index];
  binding = {};
  if (!buffer) return;
  binding.memory = ((SMBuffer*)buffer)->memory;
  [_commandBuffer keep:buffer];
  [self setOffset:offset of:binding index:index method:method];
}

- (void)setBufferOffset:(NSUInteger)offset atIndex:(NSUInteger)index {
  static const char* method = "setBufferOffset:atIndex:";
  [self requireOpen:method];
  [self requireIndex:index method:method];
  if (!_bindings[index].memory) {
    [self refuse:method because:"no buffer is set at index " + std::to_string(index)];
  }
  [self setOffset:offset of:_bindings[index] index:index method:method];
}

- (void)setOffset:(NSUInteger)offset
               of:(softmetal::Binding&)binding
            index:(NSUInteger)index
           method:(const char*)method {
  const softmetal::Memory& memory = *binding.memory;
  if (offset > memory.length()) {
    const std::string label = memory.label();
    binding = {};
    [self refuse:method
         because:"offset " + std::to_string(offset) + " at index " + std::to_string(index) +
                 " is beyond the " + std::to_string(memory.length()) + " bytes of buffer '" +
                 label + "'"];
  }
  binding.offset = offset;
}

- (void)setBuffers:(const id<MTLBuffer>[])buffers
           offsets:(const NSUInteger[])offsets
         withRange:(NSRange)range {
  for (NSUInteger i = 0; i < range.length; ++i) {
    [self setBuffer:buffers[i] offset:offsets[i] atIndex:range.location + i];
  }
}

- (void)setBytes:(const void*)bytes length:(NSUInteger)length atIndex:(NSUInteger)index {
  static const char* method = "setBytes:length:atIndex:";
  [self requireOpen:method];
  [self requireIndex:index method:method];
  if (!bytes) [self refuse:method because:"bytes are NULL at index " + std::to_string(index)];
  if (!length) [self refuse:method because:"length is 0 at index " + std::to_string(index)];
  if (length > SM_MAX_SET_BYTES) {
    [self refuse:method
         because:"length " + std::to_string(length) + " at index " + std::to_string(index) +
                 " is more than " + std::to_string(SM_MAX_SET_BYTES) +
                 " bytes, use a buffer (setBytes: is for data under 4 KB)"];
  }
  const char* data = static_cast<const char*>(bytes);
  _bindings[index] = {nullptr, 0, {data, data + length}};
  counting::add(counting::global().bytes_set, length);
}

- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index {
  static const char* method = "setThreadgroupMemoryLength:atIndex:";
  [self requireOpen:method];
  [self requireIndex:index method:method];
  if (length % 16) {
    [self refuse:method
         because:"length " + std::to_string(length) + " is not a multiple of 16 bytes"];
  }
  if (length > SM_MAX_THREADGROUP_MEMORY) {
    [self
         refuse:method
        because:"length " + std::to_string(length) + " is more than the " +
                std::to_string(SM_MAX_THREADGROUP_MEMORY) + " bytes of maxThreadgroupMemoryLength"];
  }
  _threadgroupLengths[index] = length;
}

// ---- residency ----------------------------------------------------------------------------------

- (void)useResource:(id<MTLResource>)resource usage:(MTLResourceUsage)usage {
  [self useResources:&resource count:1 usage:usage];
}

- (void)useResources:(const id<MTLResource>[])resources
               count:(NSUInteger)count
               usage:(MTLResourceUsage)usage {
  static const char* method = "useResource:usage:";
  [self requireOpen:method];
  if (!(usage & (MTLResourceUsageRead | MTLResourceUsageWrite))) {
    [self refuse:method because:"usage is neither Read nor Write"];
  }
  const size_t distinct = _declaredUsage.size();
  for (NSUInteger i = 0; i < count; ++i) {
    if (!resources[i]) {
      [self refuse:method because:"resource " + std::to_string(i) + " is nil"];
    }
    const auto& memory = ((SMBuffer*)resources[i])->memory;
    const unsigned before = _declaredUsage.add(memory.get(), usage);
    if ((before & usage) != usage) {
      _declared->push_back({memory, (usage & MTLResourceUsageWrite) != 0});
    }
  }
  counting::add(counting::global().declared, _declaredUsage.size() - distinct);
  counting::add(counting::global().use_resource_calls, count);
}

- (void)memoryBarrierWithScope:(MTLBarrierScope)scope {
  [self requireOpen:"memoryBarrierWithScope:"];
  if (scope & MTLBarrierScopeBuffers) _pass.groups.emplace_back();
}

- (void)memoryBarrierWithResources:(const id<MTLResource>[])resources count:(NSUInteger)count {
  [self requireOpen:"memoryBarrierWithResources:count:"];
  if (!count) return;
  softmetal::DispatchGroup& next = _pass.groups.emplace_back();
  next.after_all = false;
  for (NSUInteger i = 0; i < count; ++i) {
    if (!resources[i]) {
      [self refuse:"memoryBarrierWithResources:count:"
           because:"resource " + std::to_string(i) + " is nil"];
    }
    next.named.push_back(((SMBuffer*)resources[i])->memory);
  }
}

// ---- dispatches ---------------------------------------------------------------------------------

- (void)dispatchThreads:(MTLSize)grid threadsPerThreadgroup:(MTLSize)group {
  [self dispatch:"dispatchThreads:threadsPerThreadgroup:"
            grid:{grid.width, grid.height, grid.depth}
           group:{group.width, group.height, group.depth}];
}

- (void)dispatchThreadgroups:(MTLSize)groups threadsPerThreadgroup:(MTLSize)group {
  [self dispatch:"dispatchThreadgroups:threadsPerThreadgroup:"
            grid:{groups.width * group.width, groups.height * group.height,
                  groups.depth * group.depth}
           group:{group.width, group.height, group.depth}];
}

- (void)dispatch:(const char*)method
            grid:(std::array<size_t, 3>)grid
           group:(std::array<size_t, 3>)group {
  [self requireOpen:method];
  if (!_pipeline) [self refuse:method because:"no setComputePipelineState: before it"];
  const sm_kernel& kernel = *_pipeline->function.kernel;
  const softmetal::Limits limits = {unsigned([_pipeline maxTotalThreadsPerThreadgroup]),
                                    bool(_pipeline->wholeSimdgroups)};
  std::string problem = softmetal::problem_with_size(grid, group, limits);
  if (problem.empty()) {
    problem = softmetal::problem_with_arguments(kernel, _bindings, _threadgroupLengths);
  }
  if (!problem.empty()) [self refuse:method because:problem];

  softmetal::Dispatch dispatch;
  dispatch.function = _pipeline->function;
  dispatch.grid = grid;
  dispatch.threadgroup = group;
  dispatch.declared = _declared;
  dispatch.declared_count = _declared->size();
  dispatch.take_arguments(kernel, _bindings, _threadgroupLengths);
  [self countDispatch:dispatch];

  if (_pass.groups.empty() || !_pass.concurrent) _pass.groups.emplace_back();
  _pass.groups.back().dispatches.push_back(std::move(dispatch));
}

- (void)countDispatch:(const softmetal::Dispatch&)dispatch {
  counting::Kernel& kernel = *_pipeline->counters;
  counting::Global& global = counting::global();
  uint64_t threads = 1, groups = 1;
  for (int i = 0; i < 3; ++i) {
    threads *= dispatch.grid[i];
    groups *= (dispatch.grid[i] + dispatch.threadgroup[i] - 1) / dispatch.threadgroup[i];
  }
  counting::add(kernel.dispatches);
  counting::add(kernel.threads, threads);
  counting::add(kernel.threadgroups, groups);
  counting::add(global.dispatches);
  counting::add(global.threads, threads);
  counting::add(global.threadgroups, groups);

  Attribution* mine = nullptr;
  for (Attribution& a : _attributions) {
    if (a.kernel == &kernel) mine = &a;
  }
  if (!mine) {
    counting::add(kernel.encoders);
    mine = &_attributions.emplace_back(Attribution{&kernel, 0});
  }
  counting::add(kernel.declared, _declaredUsage.size() - mine->declared);
  mine->declared = _declaredUsage.size();
}

@end
