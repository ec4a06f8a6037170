#include "commands.h"
#include "process.h"

using softmetal::invalid;
using softmetal::QueueState;

// Runs committed command buffers in the order in which they were enqueued.
static void run_queue(const std::shared_ptr<QueueState>& state) {
  std::unique_lock<std::mutex> lock(state->lock);
  state->thread = std::this_thread::get_id();
  for (;;) {
    state->changed.wait(lock, [&] {
      return state->stop || (!state->order.empty() && [state->order.front() isCommitted]);
    });
    if (state->order.empty() || ![state->order.front() isCommitted]) return;
    SMCommandBuffer* buffer = state->order.front();
    state->order.pop_front();
    lock.unlock();
    @autoreleasepool {
      [buffer execute];
      [buffer release];
    }
    lock.lock();
  }
}

@implementation SMCommandQueue
@synthesize label = _label;

- (instancetype)initWithMaxCommandBufferCount:(NSUInteger)count {
  if ((self = [super init])) {
    state = std::make_shared<QueueState>();
    state->limit = count;
  }
  return self;
}

- (void)dealloc {
  {
    std::lock_guard<std::mutex> lock(state->lock);
    state->stop = true;
  }
  state->changed.notify_all();
  [_label release];
  [super dealloc];
}

- (id<MTLDevice>)device {
  return [SMDevice shared];
}

- (id<MTLCommandBuffer>)commandBuffer {
  return [self makeCommandBufferRetained:YES];
}

- (id<MTLCommandBuffer>)commandBufferWithUnretainedReferences {
  return [self makeCommandBufferRetained:NO];
}

// Metal blocks while the queue has its maximum of command buffers that have not completed. If none
// of them is committed it blocks for ever.
- (id<MTLCommandBuffer>)makeCommandBufferRetained:(BOOL)retained {
  softmetal::check_not_forked();
  {
    std::unique_lock<std::mutex> lock(state->lock);
    while (state->live >= state->limit) {
      const bool in_handler = state->thread == std::this_thread::get_id();
      if (!state->committed || in_handler) {
        invalid(
            "commandBuffer: " + std::to_string(state->live) +
            " command buffers of this queue exist" +
            (in_handler ? ", and this one is asked for in a handler" : " and none is committed") +
            ": Metal would wait for one of them for ever (commit and release them)");
      }
      state->changed.wait(lock);
    }
    ++state->live;
  }
  softmetal::counting::add(softmetal::counting::global().command_buffers);
  return [[[SMCommandBuffer alloc] initWithQueue:self retained:retained] autorelease];
}

- (void)append:(SMCommandBuffer*)buffer {
  std::lock_guard<std::mutex> lock(state->lock);
  state->order.push_back([buffer retain]);
  if (!state->started) {
    state->started = true;
    std::thread([shared = state] { run_queue(shared); }).detach();
  }
}

@end
