// Runs the threads of a threadgroup: each as a plain call on a fiber's stack for as long as it does
// not wait, so that a kernel in which nobody waits costs one fiber. Also threadgroup_barrier.
#pragma once

#include "fiber.h"
#include "group.h"
#include "tracing.h"

namespace softmetal {

constexpr uint no_lane = ~0u;

// ---- errors ----

// Ends the threadgroup: records the error and leaves all fibers where they are.
[[noreturn]] __attribute__((noinline)) static void fail(Group& g, const Message& message) {
  g.failure = message;
  g.dispatch->fail(g.dispatch, g.failure.text, nullptr);
  void* abandoned;
  switch_stack(&abandoned, g.worker_stack_pointer);
  __builtin_unreachable();
}

__attribute__((noinline)) static void fail_missed_barrier(Group& g) {
  Message m;
  m << "threadgroup_barrier was not reached by every thread of the threadgroup: " << g.finished
    << " of " << g.threads << " threads returned without it, at " << g.barrier;
  fail(g, m);
}

// ---- scheduling ----

static void fiber_main();

inline void make_runnable(Group& g, uint lane) {
  g.lane[lane].state = ready;
  g.runnable[g.runnable_tail] = lane;
  g.runnable_tail = (g.runnable_tail + 1) % (SM_MAX_THREADS + 1);
}

// The n-th of `count` things in the order that the dispatch asks for.
inline uint in_order(const Group& g, uint n, uint count, ulong seed) {
  return uint(in_order(g.dispatch->order, n, count, seed));
}
// The n-th thread to start.
inline uint start_order(const Group& g, uint n) {
  return in_order(g, n, g.threads, g.start_seed);
}

inline void release_barrier(Group& g) {
  ++g.release_seed;
  for (uint n = 0; n < g.threads; ++n) {
    uint i = in_order(g, n, g.threads, g.release_seed);
    if (g.lane[i].state == at_barrier && i != g.current) make_runnable(g, i);
  }
  g.waiting_at_barrier = 0;
  trace_barrier(g.barrier_flags);
}

inline void release_simdgroup(Group& g, uint index) {
  Simdgroup& s = g.simdgroup[index];
  s.arrived = 0;
  s.parity ^= 1;
  uint first = index * SM_SIMD;
  uint count = g.threads - first < SM_SIMD ? g.threads - first : SM_SIMD;
  ++g.release_seed;
  for (uint n = 0; n < count; ++n) {
    uint i = first + in_order(g, n, count, g.release_seed);
    if (g.lane[i].state == at_simd_operation && i != g.current) make_runnable(g, i);
  }
}

inline void complete_simdgroup(Group& g, uint index) {
  g.simdgroup[index].complete(g.simdgroup[index]);
  release_simdgroup(g, index);
}

// Every lane that has not finished waits. Those at a simdgroup operation whose neighbours wait at a
// barrier are the active threads of a divergent branch, `if (lane < 16) x = simd_sum(x);`, which is
// legal: the operation is theirs alone.
inline bool complete_divergent_operation(Group& g) {
  for (uint n = 0; n < g.positions.simdgroups; ++n) {
    uint s = in_order(g, n, g.positions.simdgroups, g.release_seed);
    if (!g.simdgroup[s].arrived) continue;
    ++g.divergent_simd_operations;
    g.current = no_lane;
    complete_simdgroup(g, s);
    return true;
  }
  return false;
}

// Leaves the current fiber, which waits or is finished, for the next one.
static void leave(Group& g, void** save) {
  ++g.switches;
  for (;;) {
    if (g.runnable_head != g.runnable_tail) {
      uint lane = g.runnable[g.runnable_head];
      g.runnable_head = (g.runnable_head + 1) % (SM_MAX_THREADS + 1);
      g.current = lane;
      g.lane[lane].state = running;
      if (save != &g.lane[lane].stack_pointer) switch_stack(save, g.lane[lane].stack_pointer);
      return;
    }
    if (g.started < g.threads) {
      uint stack = g.free_stack_count ? g.free_stacks[--g.free_stack_count] : g.stack_count++;
      g.starting_stack = stack;
      switch_stack(save, prepare_stack(g.dispatch->stack_top(stack), fiber_main));
      return;
    }
    if (g.finished == g.threads) {
      switch_stack(save, g.worker_stack_pointer);
      return;
    }
    if (!complete_divergent_operation(g)) {
      fail(g, Message() << "internal error of the software device: no thread can run");
    }
  }
}

// After `thread` returned from the kernel: nobody waits for it any longer.
inline void finish_thread(Group& g, uint thread) {
  g.lane[thread].state = done;
  ++g.finished;
  g.current = no_lane;
  if (g.waiting_at_barrier && g.waiting_at_barrier == g.threads - g.finished) {
    if (g.dispatch->strict) fail_missed_barrier(g);
    release_barrier(g);
  }
  Simdgroup& s = g.simdgroup[thread / SM_SIMD];
  --s.alive;
  if (s.arrived && s.arrived == s.alive) complete_simdgroup(g, thread / SM_SIMD);
}

// A fiber runs new threads until a released one is waiting for its turn.
static void fiber_main() {
  Group& g = *current_group;
  uint stack = g.starting_stack;
  while (g.started < g.threads && g.runnable_head == g.runnable_tail) {
    uint thread = start_order(g, g.started++);
    g.current = thread;
    g.lane[thread].state = running;
    g.body(g, thread);
    finish_thread(g, thread);
  }
  g.free_stacks[g.free_stack_count++] = stack;  // nothing is put on it before the switch below
  leave(g, &g.discarded_stack_pointer);
  __builtin_unreachable();
}

// ---- threadgroup_barrier ----

__attribute__((noinline, convergent)) static void barrier(site where, uint flags) {
  Group& g = *current_group;
  if (!g.waiting_at_barrier) {
    g.barrier = where;
    g.barrier_flags = flags;
  } else if (g.dispatch->strict && !(g.barrier == where)) {
    fail(g, Message() << "threads of one threadgroup wait at different barriers, at " << g.barrier
                      << " and at " << where << ": every thread must reach the same one");
  }
  ++g.barriers;
  g.barrier_flags &= flags;
  Lane& lane = g.lane[g.current];
  lane.state = at_barrier;
  if (++g.waiting_at_barrier == g.threads - g.finished) {
    if (g.finished && g.dispatch->strict) fail_missed_barrier(g);
    release_barrier(g);
    lane.state = running;
    return;
  }
  leave(g, &lane.stack_pointer);
}

}  // namespace softmetal
