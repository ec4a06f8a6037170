// The part of libdispatch that <dispatch/dispatch.h> declares. C++ with blocks, not Objective-C++:
// so catch (...) sees Objective-C exceptions as well.
#include <Block.h>
#include <dispatch/dispatch.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

#include "softmetal/softmetal.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

// ---- serial queues ------------------------------------------------------------------------------

// Blocks run one at a time in the order in which they came, dispatch_sync's among dispatch_async's:
// each takes a ticket and waits for its turn.
struct dispatch_queue_s {
  std::string label;
  std::atomic<unsigned> references{1};
  std::mutex lock;  // of the members below
  std::condition_variable turn;
  uint64_t next_ticket = 0;
  uint64_t serving = 0;
  std::thread::id owner;  // thread whose block is running
};

namespace {

std::string describe(dispatch_queue_t queue) {
  return "dispatch queue '" + queue->label + "'";
}

uint64_t take_ticket(dispatch_queue_t queue) {
  std::lock_guard<std::mutex> lock(queue->lock);
  if (queue->owner == std::this_thread::get_id()) {
    throw softmetal::ValidationError("dispatch_sync onto " + describe(queue) +
                                     " from a block that runs on it: deadlock");
  }
  return queue->next_ticket++;
}

// The turn of one block.
class Turn {
 public:
  Turn(dispatch_queue_t queue, uint64_t ticket) : queue_(queue) {
    std::unique_lock<std::mutex> lock(queue->lock);
    queue->turn.wait(lock, [&] { return queue->serving == ticket; });
    queue->owner = std::this_thread::get_id();
  }
  ~Turn() {
    std::lock_guard<std::mutex> lock(queue_->lock);
    queue_->owner = std::thread::id();
    ++queue_->serving;
    queue_->turn.notify_all();
  }

 private:
  dispatch_queue_t queue_;
};

// libdispatch is not exception safe: on a Mac an exception that leaves a block ends the process.
template <class Work>
void run_block(dispatch_queue_t queue, uint64_t ticket, const Work& work) {
  Turn turn(queue, ticket);
  try {
    work();
  } catch (...) {
    std::string what = "an exception";
    try {
      throw;
    } catch (const std::exception& e) {
      what += std::string(" (") + e.what() + ")";
    } catch (...) {  // an NSException, for one
    }
    fprintf(stderr,
            "softmetal: %s left a block on %s; libdispatch ends the process there. Carry it out of "
            "the block instead.\n",
            what.c_str(), describe(queue).c_str());
    if (softmetal::settings().strict) abort();
    throw;
  }
}

}  // namespace

EXPORT dispatch_queue_t dispatch_queue_create(const char* label, dispatch_queue_attr_t) {
  auto* queue = new dispatch_queue_s;
  queue->label = label ? label : "";
  return queue;
}

EXPORT const char* dispatch_queue_get_label(dispatch_queue_t queue) {
  return queue->label.c_str();
}

EXPORT void dispatch_sync(dispatch_queue_t queue, DISPATCH_NOESCAPE dispatch_block_t block) {
  run_block(queue, take_ticket(queue), [&] { block(); });
}

EXPORT void dispatch_sync_f(dispatch_queue_t queue, void* context, dispatch_function_t work) {
  run_block(queue, take_ticket(queue), [&] { work(context); });
}

EXPORT void dispatch_async(dispatch_queue_t queue, dispatch_block_t block) {
  dispatch_block_t copy = Block_copy(block);
  dispatch_retain(queue);
  uint64_t ticket;
  {
    std::lock_guard<std::mutex> lock(queue->lock);
    ticket = queue->next_ticket++;
  }
  std::thread([=] {
    run_block(queue, ticket, [&] { copy(); });
    Block_release(copy);
    dispatch_release(queue);
  }).detach();
}

__attribute__((visibility("default"))) void dispatch_retain(dispatch_queue_t queue) {
  ++queue->references;
}

__attribute__((visibility("default"))) void dispatch_release(dispatch_queue_t queue) {
  if (--queue->references == 0) delete queue;
}

// ---- semaphores ---------------------------------------------------------------------------------

struct dispatch_semaphore_s {
  std::atomic<unsigned> references{1};
  std::mutex lock;
  std::condition_variable signalled;
  intptr_t value;
};

EXPORT dispatch_semaphore_t dispatch_semaphore_create(intptr_t value) {
  auto* semaphore = new dispatch_semaphore_s;
  semaphore->value = value;
  return semaphore;
}

EXPORT intptr_t dispatch_semaphore_signal(dispatch_semaphore_t semaphore) {
  std::lock_guard<std::mutex> lock(semaphore->lock);
  ++semaphore->value;
  semaphore->signalled.notify_one();
  return 0;
}

// Times are nanoseconds of the steady clock.
EXPORT dispatch_time_t dispatch_time(dispatch_time_t when, int64_t nanoseconds) {
  using namespace std::chrono;
  if (when == DISPATCH_TIME_FOREVER) return when;
  if (when == DISPATCH_TIME_NOW) when = steady_clock::now().time_since_epoch() / 1ns;
  return when + nanoseconds;
}

EXPORT intptr_t dispatch_semaphore_wait(dispatch_semaphore_t semaphore, dispatch_time_t timeout) {
  using namespace std::chrono;
  std::unique_lock<std::mutex> lock(semaphore->lock);
  const auto ready = [&] { return semaphore->value > 0; };
  if (timeout == DISPATCH_TIME_FOREVER) {
    semaphore->signalled.wait(lock, ready);
  } else if (!semaphore->signalled.wait_until(lock, steady_clock::time_point(nanoseconds(timeout)),
                                              ready)) {
    return 1;  // timed out
  }
  --semaphore->value;
  return 0;
}

__attribute__((visibility("default"))) void dispatch_retain(dispatch_semaphore_t semaphore) {
  ++semaphore->references;
}

__attribute__((visibility("default"))) void dispatch_release(dispatch_semaphore_t semaphore) {
  if (--semaphore->references == 0) delete semaphore;
}

// ---- once ---------------------------------------------------------------------------------------

EXPORT void dispatch_once(dispatch_once_t* predicate, DISPATCH_NOESCAPE dispatch_block_t block) {
  // Recursive: initialisers may use others.
  static auto* lock = new std::recursive_mutex;
  if (__atomic_load_n(predicate, __ATOMIC_ACQUIRE)) return;
  std::lock_guard<std::recursive_mutex> guard(*lock);
  if (*predicate) return;
  block();
  __atomic_store_n(predicate, 1, __ATOMIC_RELEASE);
}
