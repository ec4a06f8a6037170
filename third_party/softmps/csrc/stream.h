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
#include <memory>
#include <mutex>
#include <string>
#include <vector>

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
  void wait_for(id<MTLCommandBuffer> last);  // it has been committed
  // Commits, and has `handler` called when that work is done. Keeps `owner` until somebody has
  // waited for it, to drop it on that thread: dropping a storage that Python knows takes the GIL,
  // which Metal's thread must not.
  void commit_then(MTLCommandBufferHandler handler, std::shared_ptr<void> owner);
  bool pending() const { return pending_.load(std::memory_order_acquire); }

 private:
  Stream();
  id<MTLCommandBuffer> current();
  void end_coalescing();

  // What waiting found. It is dealt with when wait_mutex_ is free again: dropping an owner may take
  // the GIL, which another waiter may hold.
  struct Finished {
    std::vector<std::shared_ptr<void>> owners;
    std::string error;
    void report() const;  // throws if there is an error
  };
  Finished wait_for_committed(id<MTLCommandBuffer> last);  // nil: all
  bool is_committed(id<MTLCommandBuffer> buffer);          // and nobody has waited for it

  struct Committed {
    id<MTLCommandBuffer> buffer;
    std::vector<std::shared_ptr<void>> owners;
  };

  id<MTLCommandQueue> command_queue_;
  dispatch_queue_t queue_;
  // Held while waiting, so that a second waiter returns only when the work is done. Taken before
  // state_mutex_, which is never held while waiting: completed handlers may use the stream.
  std::mutex wait_mutex_;
  std::recursive_mutex state_mutex_;
  id<MTLCommandBuffer> current_ = nil;
  id<MTLComputeCommandEncoder> encoder_ = nil;
  std::vector<std::shared_ptr<void>> owners_;  // of the current command buffer
  std::deque<Committed> committed_;
  std::atomic<bool> pending_{false};
};

}  // namespace softmps::metal
