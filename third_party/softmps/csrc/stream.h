// PyTorch's one MPS stream, for the Objective-C++ files.
//
// As on a Mac: one command queue, a current command buffer made on demand, kernels of
// compile_shader coalesced into one encoder until somebody asks for the command buffer, and nothing
// runs before a commit.
#pragma once

#import <Metal/Metal.h>
#include <dispatch/dispatch.h>

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <string>

#include "metal.h"

namespace softmps::metal {

class Stream {
 public:
  static Stream& get();

  dispatch_queue_t queue() const { return queue_; }
  id<MTLCommandBuffer> command_buffer();  // ends the coalesced encoder: the caller makes his own
  // Runs `body` with the coalesced encoder. Nobody commits or ends it meanwhile.
  void encode(const std::function<void(id<MTLComputeCommandEncoder>)>& body);
  // Commits the current command buffer, if there is one (or in any case: `make_one`), and returns
  // it retained, else nil.
  id<MTLCommandBuffer> commit(Reason reason, bool make_one = false);
  void wait(Reason reason);
  void wait_for(id<MTLCommandBuffer> last, uint64_t ticket);  // it has been committed
  bool pending() const { return pending_.load(std::memory_order_acquire); }

 private:
  Stream();
  id<MTLCommandBuffer> current();
  void end_coalescing();

  std::string wait_for_committed(id<MTLCommandBuffer> last);  // nil: all. Returns their error
  bool is_committed(id<MTLCommandBuffer> buffer);             // and nobody has waited for it

  id<MTLCommandQueue> command_queue_;
  dispatch_queue_t queue_;
  // Held while waiting, so that a second waiter returns only when the work is done. Taken before
  // state_mutex_, which is never held while waiting: completed handlers may use the stream.
  std::mutex wait_mutex_;
  std::recursive_mutex state_mutex_;
  id<MTLCommandBuffer> current_ = nil;
  id<MTLComputeCommandEncoder> encoder_ = nil;
  std::deque<id<MTLCommandBuffer>> committed_;
  std::atomic<bool> pending_{false};
};

}  // namespace softmps::metal
