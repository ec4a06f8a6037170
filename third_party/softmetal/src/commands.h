// Queues, command buffers and encoders.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "objects.h"
#include "pointer_table.h"

@class SMCommandBuffer;
@class SMComputeEncoder;

namespace softmetal {

// Dispatches that may overlap. What was before is ordered before them: all of it, or what they and
// it do to the buffers `named` (memoryBarrierWithResources:).
struct DispatchGroup {
  bool after_all = true;
  std::vector<std::shared_ptr<Memory>> named;
  std::vector<Dispatch> dispatches;
};

// What one encoder recorded. Groups follow one another. A serial encoder makes a group of each
// dispatch, a concurrent one of those between two barriers.
struct Pass {
  bool concurrent = false;
  std::vector<DispatchGroup> groups;
};

// Shared with the thread that runs the queue's command buffers, which may outlive the queue.
struct QueueState {
  std::mutex lock;
  std::condition_variable changed;
  std::deque<SMCommandBuffer*> order;  // enqueued, retained
  size_t limit = 0;
  size_t live = 0;       // command buffers that exist and have not completed
  size_t committed = 0;  // of these, the committed ones
  bool started = false;
  bool stop = false;
  std::atomic<std::thread::id> thread;
};

}  // namespace softmetal

@interface SMCommandQueue : NSObject <MTLCommandQueue> {
 @public
  std::shared_ptr<softmetal::QueueState> state;
 @private
  NSString* _label;
}
- (instancetype)initWithMaxCommandBufferCount:(NSUInteger)count;
- (void)append:(SMCommandBuffer*)buffer;  // enqueue
@end

@interface SMCommandBuffer : NSObject <MTLCommandBuffer> {
 @public
  std::vector<softmetal::Pass> passes;
  SMComputeEncoder* openEncoder;  // not retained: it retains this object
  std::string abandoned;          // an encoder that was released while it was open
 @private
  SMCommandQueue* _queue;
  std::shared_ptr<softmetal::QueueState> _queueState;
  BOOL _retainedReferences;
  std::atomic<NSUInteger> _status;
  softmetal::Ticket _ticket;    // of its commit
  std::vector<id> _references;  // retained until completion
  std::vector<MTLCommandBufferHandler> _scheduledHandlers, _completedHandlers;
  NSError* _error;
  NSString* _label;
  double _start, _end;
  unsigned _debugGroups;
  bool _scheduled, _finished;
  std::mutex _lock;
  std::condition_variable _changed;
}
- (instancetype)initWithQueue:(SMCommandQueue*)queue retained:(BOOL)retained;
- (void)keep:(id)object;  // until completion, unless references are unretained
- (BOOL)isCommitted;
- (void)execute;  // on the queue's thread
@end

@interface SMComputeEncoder : NSObject <MTLComputeCommandEncoder> {
  SMCommandBuffer* _commandBuffer;
  SMComputePipeline* _pipeline;
  MTLDispatchType _dispatchType;
  softmetal::Pass _pass;
  softmetal::BindingTable _bindings;
  softmetal::ThreadgroupLengths _threadgroupLengths;
  std::shared_ptr<std::vector<softmetal::Access>> _declared;
  softmetal::PointerTable _declaredUsage;  // what of it is declared already
  struct Attribution {
    softmetal::counting::Kernel* kernel;
    size_t declared;  // distinct resources that were counted for it
  };
  std::vector<Attribution> _attributions;
  NSString* _label;
  unsigned _debugGroups;
  BOOL _ended;
}
- (instancetype)initWithCommandBuffer:(SMCommandBuffer*)buffer dispatchType:(MTLDispatchType)type;
- (std::string)describe;  // "compute encoder 'x' (last pipeline: kernel 'y')"
@end
