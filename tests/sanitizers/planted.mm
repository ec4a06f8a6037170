// Bugs that a sanitizer has to report: they show that it is there and looks.
#include <atomic>
#include <thread>

#include "exercise.h"

namespace {

volatile int g_index = 4;  // what the compiler cannot know

void heap_overflow() {
  int* values = new int[4];
  values[g_index] = 1;
  delete[] values;
}

void use_after_free() {
  int* values = new int[4];
  delete[] values;
  values[g_index - 4] = 1;
}

// In a completed handler, on the queue's thread: host code of the device's users.
void overflow_in_a_handler() {
  Host host;
  id<MTLCommandBuffer> commands = [host.queue.get() commandBuffer];
  int* values = new int[4];
  [commands addCompletedHandler:^(id<MTLCommandBuffer>) {
    values[g_index] = 1;
  }];
  [commands commit];
  [commands waitUntilCompleted];
  delete[] values;
}

void signed_overflow() {
  volatile int largest = 0x7fffffff;
  largest = largest + g_index;
}

void leak() {
  volatile char* lost = new char[1000];
  lost[0] = 1;
  lost = nullptr;
}

// A buffer that nobody releases.
void leaked_buffer() {
  Host host;
  id<MTLBuffer> lost = host.floats(10, 1);
  floats_of(lost)[0] = 2;
}

int g_shared = 0;
void race() {
  std::thread other([] { ++g_shared; });
  ++g_shared;
  other.join();
}

void await(const std::atomic<bool>& flag) {
  while (!flag.load(std::memory_order_relaxed)) std::this_thread::yield();
}

// The host changes what a handler has changed, and waits only then: that it came later says
// nothing. The handler waits until the commit is over: its locks may put the two in order.
void race_with_a_handler() {
  Host host;
  int value = 0, *value_here = &value;
  std::atomic<bool> committed{false}, *committed_here = &committed;
  std::atomic<bool> changed{false}, *changed_here = &changed;
  id<MTLCommandBuffer> commands = [host.queue.get() commandBuffer];
  [commands addCompletedHandler:^(id<MTLCommandBuffer>) {
    await(*committed_here);
    ++*value_here;
    changed_here->store(true, std::memory_order_relaxed);
  }];
  [commands commit];
  committed.store(true, std::memory_order_relaxed);
  await(changed);
  ++value;
  [commands waitUntilCompleted];
}

}  // namespace

void add_planted_bugs(Cases& cases) {
  cases["planted_heap_overflow"] = heap_overflow;
  cases["planted_use_after_free"] = use_after_free;
  cases["planted_overflow_in_a_handler"] = overflow_in_a_handler;
  cases["planted_signed_overflow"] = signed_overflow;
  cases["planted_leak"] = leak;
  cases["planted_leaked_buffer"] = leaked_buffer;
  cases["planted_race"] = race;
  cases["planted_race_with_a_handler"] = race_with_a_handler;
}
