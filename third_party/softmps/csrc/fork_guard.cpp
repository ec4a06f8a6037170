#include "fork_guard.h"

#include <pthread.h>

#include <atomic>
#include <mutex>
#include <stdexcept>

namespace softmps {
namespace {
std::atomic<bool> forked{false};
}

void watch_for_fork() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { forked = true; }); });
}

bool in_forked_child() {
  return forked.load(std::memory_order_relaxed);
}

void require_not_forked() {
  if (in_forked_child()) {
    throw std::runtime_error(
        "MPS was initialised before fork; use spawn. Metal does not survive a fork: start this "
        "process with multiprocessing's 'spawn' method, or fork before the first MPS operation.");
  }
}

}  // namespace softmps
