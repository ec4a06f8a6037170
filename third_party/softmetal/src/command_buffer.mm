#include <Block.h>

#include <algorithm>
#include <chrono>

#include "commands.h"
#include "process.h"
#include "softmetal_order.h"
#include "tracer.h"

using softmetal::invalid;
using softmetal::to_string;
namespace counting = softmetal::counting;

static double now() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

static void touch_bound(const softmetal::Dispatch& dispatch, softmetal::Ticket ticket) {
  const char* kernel = dispatch.function.kernel->name;
  for (const auto& [declaration, binding] : dispatch.buffers) {
    if (!binding.memory) continue;
    softmetal::EarlyAccess::touch(*binding.memory, !declaration->is_const, kernel, ticket);
  }
}

// The list is that of the encoder: its last dispatch has all of it.
static void touch_declared(const softmetal::Dispatch& last, softmetal::Ticket ticket) {
  const char* kernel = last.function.kernel->name;
  for (size_t i = 0; i < last.declared_count; ++i) {
    const softmetal::Access& access = (*last.declared)[i];
    softmetal::EarlyAccess::touch(*access.memory, access.write, kernel, ticket);
  }
}

static NSInteger error_code(softmetal::Failure::Kind kind) {
  switch (kind) {
    case softmetal::Failure::page_fault:
      return MTLCommandBufferErrorPageFault;
    case softmetal::Failure::invalid_resource:
      return MTLCommandBufferErrorInvalidResource;
    case softmetal::Failure::timeout:
      return MTLCommandBufferErrorTimeout;
    case softmetal::Failure::stack_overflow:
      return MTLCommandBufferErrorStackOverflow;
    case softmetal::Failure::out_of_memory:
      return MTLCommandBufferErrorOutOfMemory;
    case softmetal::Failure::internal:
      break;
  }
  return MTLCommandBufferErrorInternal;
}

// Dispatches of a group may run in any order on a GPU; backwards is the one that shows a missing
// barrier.
static std::optional<softmetal::Failure> run_pass(softmetal::Pass& pass) {
  const softmetal::Settings s = softmetal::settings();
  const bool shuffled = s.order == softmetal::Order::shuffled;
  const sm_order order = shuffled ? SM_SHUFFLED : s.strict ? SM_REVERSE : SM_FORWARD;
  std::unique_ptr<softmetal::tracing::Tracer> tracer;
  if (s.trace) tracer = std::make_unique<softmetal::tracing::Tracer>();
  for (softmetal::DispatchGroup& group : pass.groups) {
    if (tracer) group.after_all ? tracer->barrier() : tracer->barrier(group.named);
    const size_t count = group.dispatches.size();
    for (size_t n = 0; n < count; ++n) {
      const size_t i = pass.concurrent ? softmetal::in_order(order, n, count, s.seed) : n;
      const softmetal::Dispatch& dispatch = group.dispatches[i];
      if (auto failure = softmetal::execute(dispatch, tracer.get())) return failure;
    }
  }
  return std::nullopt;
}

namespace softmetal {

void touched_by_kernels(void* command_buffer, uint64_t ticket) {
  for (const Pass& pass : ((SMCommandBuffer*)command_buffer)->passes) {
    const Dispatch* last = nullptr;
    for (const DispatchGroup& group : pass.groups) {
      for (const Dispatch& dispatch : group.dispatches) {
        touch_bound(dispatch, ticket);
        last = &dispatch;
      }
    }
    if (last) touch_declared(*last, ticket);
  }
}

}  // namespace softmetal

@implementation SMCommandBuffer
@synthesize label = _label;

- (instancetype)initWithQueue:(SMCommandQueue*)queue retained:(BOOL)retained {
  if ((self = [super init])) {
    _queue = [queue retain];
    _queueState = queue->state;
    _retainedReferences = retained;
    _status = MTLCommandBufferStatusNotEnqueued;
  }
  return self;
}

- (void)dealloc {
  if (!_finished) [self leaveQueue];
  for (id object : _references) [object release];
  for (MTLCommandBufferHandler block : _scheduledHandlers) Block_release(block);
  for (MTLCommandBufferHandler block : _completedHandlers) Block_release(block);
  [_error release];
  [_label release];
  [_queue release];
  [super dealloc];
}

- (void)leaveQueue {
  {
    std::lock_guard<std::mutex> lock(_queueState->lock);
    --_queueState->live;
    if ([self isCommitted]) --_queueState->committed;
  }
  _queueState->changed.notify_all();
}

// ---- state --------------------------------------------------------------------------------------

- (id<MTLDevice>)device {
  return [SMDevice shared];
}

- (id<MTLCommandQueue>)commandQueue {
  return _queue;
}

- (BOOL)retainedReferences {
  return _retainedReferences;
}

- (MTLCommandBufferStatus)status {
  const auto status = static_cast<MTLCommandBufferStatus>(_status.load());
  if (status >= MTLCommandBufferStatusCompleted) [self countAsWaitedFor];
  return status;
}

// The caller knows now that this work is over, and so is what was handed to the device before it.
- (void)countAsWaitedFor {
  if (!softmetal::waits_quietly()) softmetal::EarlyAccess::waited_for(_ticket);
}

- (BOOL)isCommitted {
  return _status >= MTLCommandBufferStatusCommitted;
}

- (NSError*)error {
  return [[_error retain] autorelease];
}

- (CFTimeInterval)GPUStartTime {
  return _start;
}

- (CFTimeInterval)GPUEndTime {
  return _end;
}

- (CFTimeInterval)kernelStartTime {
  return _start;
}

- (CFTimeInterval)kernelEndTime {
  return _end;
}

- (void)keep:(id)object {
  if (_retainedReferences) _references.push_back([object retain]);
}

// "command buffer 'step 3'"
- (std::string)describe {
  return _label ? "command buffer '" + to_string(_label) + "'" : "this command buffer";
}

- (void)requireUncommitted:(const char*)method {
  if ([self isCommitted]) invalid(std::string(method) + ": " + [self describe] + " was committed");
}

// ---- encoding -----------------------------------------------------------------------------------

- (id<MTLComputeCommandEncoder>)computeCommandEncoder {
  return [self computeCommandEncoderWithDispatchType:MTLDispatchTypeSerial];
}

- (id<MTLComputeCommandEncoder>)computeCommandEncoderWithDispatchType:(MTLDispatchType)type {
  softmetal::check_not_forked();
  [self requireUncommitted:"computeCommandEncoder"];
  if (openEncoder) {
    invalid("computeCommandEncoder: " + [openEncoder describe] + " of " + [self describe] +
            " is still open (endEncoding is missing)");
  }
  counting::add(counting::global().encoders);
  SMComputeEncoder* encoder = [[SMComputeEncoder alloc] initWithCommandBuffer:self
                                                                 dispatchType:type];
  openEncoder = encoder;
  return [encoder autorelease];
}

- (void)pushDebugGroup:(NSString*)string {
  (void)string;
  ++_debugGroups;
}

- (void)popDebugGroup {
  if (!_debugGroups) invalid("popDebugGroup without pushDebugGroup: on " + [self describe]);
  --_debugGroups;
}

// ---- submission ---------------------------------------------------------------------------------

- (void)enqueue {
  [self requireUncommitted:"enqueue"];
  if (_status == MTLCommandBufferStatusEnqueued) {
    invalid("enqueue: " + [self describe] + " was enqueued before");
  }
  _status = MTLCommandBufferStatusEnqueued;
  [_queue append:self];
}

- (void)commit {
  softmetal::check_not_forked();
  if ([self isCommitted]) invalid("commit: " + [self describe] + " was committed before");
  if (openEncoder) {
    invalid("commit: " + [openEncoder describe] + " of " + [self describe] +
            " is still open (endEncoding is missing)");
  }
  if (!abandoned.empty()) {
    invalid("commit: " + abandoned + " of " + [self describe] +
            " was released without endEncoding");
  }
  counting::add(counting::global().commits);
  _ticket = softmetal::EarlyAccess::next();
  if (_status == MTLCommandBufferStatusNotEnqueued) [_queue append:self];
  {
    std::lock_guard<std::mutex> lock(_queueState->lock);
    ++_queueState->committed;
    _status = MTLCommandBufferStatusCommitted;
  }
  _queueState->changed.notify_all();
}

- (void)addScheduledHandler:(MTLCommandBufferHandler)block {
  [self requireUncommitted:"addScheduledHandler:"];
  if (!block) invalid("addScheduledHandler:nil");
  _scheduledHandlers.push_back(Block_copy(block));
}

- (void)addCompletedHandler:(MTLCommandBufferHandler)block {
  [self requireUncommitted:"addCompletedHandler:"];
  if (!block) invalid("addCompletedHandler:nil");
  _completedHandlers.push_back(Block_copy(block));
}

- (void)waitFor:(bool*)condition method:(const char*)method {
  if (![self isCommitted]) {
    invalid(std::string(method) + ": " + [self describe] +
            " was not committed, Metal would wait for ever");
  }
  std::unique_lock<std::mutex> lock(_lock);
  if (*condition) return;
  if (_queueState->thread == std::this_thread::get_id()) {
    invalid(std::string(method) + " in a handler on the same queue: deadlock");
  }
  _changed.wait(lock, [&] { return *condition; });
}

- (void)waitUntilScheduled {
  [self waitFor:&_scheduled method:"waitUntilScheduled"];
}

- (void)waitUntilCompleted {
  counting::add(counting::global().waits);
  [self waitFor:&_finished method:"waitUntilCompleted"];
  [self countAsWaitedFor];
}

// ---- execution, on the queue's thread -----------------------------------------------------------

- (void)execute {
  const auto delay = std::chrono::milliseconds(softmetal::settings().delay);
  std::this_thread::sleep_for(delay);
  _status = MTLCommandBufferStatusScheduled;
  for (MTLCommandBufferHandler block : _scheduledHandlers) block(self);
  [self announce:&_scheduled];

  std::optional<softmetal::Failure> failure;
  _start = now();
  for (softmetal::Pass& pass : passes) {
    failure = run_pass(pass);
    if (failure) break;
  }
  _end = now();
  std::this_thread::sleep_for(delay);
  if (failure) {
    _error = [softmetal::make_error(MTLCommandBufferErrorDomain, error_code(failure->kind),
                                    failure->text) retain];
  }
  _status = failure ? MTLCommandBufferStatusError : MTLCommandBufferStatusCompleted;
  [self leaveQueue];

  {
    softmetal::InHandler here;
    for (MTLCommandBufferHandler block : _completedHandlers) block(self);
  }
  // As Metal, drop what was held for the GPU; whoever waits finds it dropped.
  for (MTLCommandBufferHandler block : _completedHandlers) Block_release(block);
  _completedHandlers.clear();
  passes.clear();
  for (id object : _references) [object release];
  _references.clear();
  [self announce:&_finished];
}

- (void)announce:(bool*)condition {
  std::lock_guard<std::mutex> lock(_lock);
  *condition = true;
  _changed.notify_all();
}

@end
