#include "workers.h"

#include <sys/mman.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "arena.h"
#include "softmetal/softmetal.h"
#include "softmetal_abi.h"

namespace softmetal {
namespace {

class Pool {
 public:
  static Pool& get() {
    static Pool* pool = new Pool;  // never destroyed: its threads outlive main()
    return *pool;
  }

  void run(const std::function<void()>& body, unsigned helpers) {
    {
      std::lock_guard<std::mutex> lock(lock_);
      for (; threads_ < helpers; ++threads_) {
        std::thread([this, index = threads_] { loop(index); }).detach();
      }
      body_ = &body;
      helpers_ = helpers;
      ++generation_;
    }
    start_.notify_all();
    body();
    std::unique_lock<std::mutex> lock(lock_);
    body_ = nullptr;  // who wakes up later finds nothing to do
    done_.wait(lock, [&] { return active_ == 0; });
  }

 private:
  void loop(unsigned index) {
    unsigned long seen = 0;
    std::unique_lock<std::mutex> lock(lock_);
    for (;;) {
      start_.wait(lock, [&] { return generation_ != seen; });
      seen = generation_;
      const std::function<void()>* body = body_;
      if (!body || index >= helpers_) continue;
      ++active_;
      lock.unlock();
      (*body)();
      lock.lock();
      if (--active_ == 0) done_.notify_all();
    }
  }

  unsigned threads_ = 0;  // that were started
  std::mutex lock_;
  std::condition_variable start_, done_;
  const std::function<void()>* body_ = nullptr;
  unsigned helpers_ = 0;  // threads that take part in it
  unsigned long generation_ = 0;
  unsigned active_ = 0;
};

// Below each fiber stack. Far more than a page, which a large frame could step over.
constexpr size_t kStackGuard = 1 << 20;

char* map_memory(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    fprintf(stderr, "softmetal: no memory for %zu bytes of kernel state\n", bytes);
    abort();
  }
  return static_cast<char*>(p);
}

// Fiber stacks and threadgroup memory of one thread.
class Workspace {
 public:
  static Workspace& mine() {
    static thread_local Workspace workspace;
    return workspace;
  }
  ~Workspace();

  char* stack_top(unsigned index) {
    if (index >= stacks_.size()) stacks_.resize(index + 1, nullptr);
    if (!stacks_[index]) stacks_[index] = new_stack();
    return stacks_[index] + kStackGuard + SM_STACK_BYTES;
  }

  char* threadgroup_memory() {
    if (!threadgroup_) threadgroup_ = map_memory(SM_THREADGROUP_ROOM);
    return threadgroup_;
  }

 private:
  static char* new_stack();
  std::vector<char*> stacks_;  // lowest byte of the guard
  char* threadgroup_ = nullptr;
};

// All stacks, for in_stack_guard; stacks of threads that have ended wait here for the next thread.
std::mutex g_stacks_lock;
std::vector<char*>& all_stacks() {
  static auto* stacks = new std::vector<char*>;
  return *stacks;
}
std::vector<char*>& spare_stacks() {
  static auto* stacks = new std::vector<char*>;
  return *stacks;
}

char* Workspace::new_stack() {
  std::lock_guard<std::mutex> lock(g_stacks_lock);
  if (!spare_stacks().empty()) {
    char* stack = spare_stacks().back();
    spare_stacks().pop_back();
    return stack;
  }
  char* stack = map_memory(kStackGuard + SM_STACK_BYTES);
  mprotect(stack, kStackGuard, PROT_NONE);
  all_stacks().push_back(stack);
  return stack;
}

Workspace::~Workspace() {
  if (threadgroup_) munmap(threadgroup_, SM_THREADGROUP_ROOM);
  std::lock_guard<std::mutex> lock(g_stacks_lock);
  for (char* stack : stacks_) {
    if (stack) spare_stacks().push_back(stack);
  }
}

}  // namespace

void run_on_workers(const std::function<void()>& body, unsigned workers) {
  if (workers <= 1) {
    body();
  } else {
    Pool::get().run(body, workers - 1);
  }
}

unsigned worker_threads() {
  const unsigned asked = settings().workers;
  return asked ? asked : std::max(1u, std::thread::hardware_concurrency());
}

char* fiber_stack_top(unsigned index) {
  return Workspace::mine().stack_top(index);
}
char* threadgroup_memory() {
  return Workspace::mine().threadgroup_memory();
}

bool in_stack_guard(const void* address) {
  const char* at = static_cast<const char*>(address);
  std::lock_guard<std::mutex> lock(g_stacks_lock);
  return std::any_of(all_stacks().begin(), all_stacks().end(),
                     [&](const char* stack) { return at >= stack && at < stack + kStackGuard; });
}

void* allocate_forever(unsigned long bytes) {
  return map_memory(bytes);
}

}  // namespace softmetal
