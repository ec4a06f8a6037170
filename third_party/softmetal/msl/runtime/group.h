// The state of one running threadgroup. A worker thread owns one Group for each kernel library and
// reuses it for threadgroup after threadgroup.
#pragma once

#include "../library/vector.h"
#include "../softmetal_abi.h"
#include "../softmetal_order.h"

extern "C" void* memset(void*, int, size_t);

namespace softmetal {

using metal::uint3;

// Where in the source something is called; the default argument of every synchronising function.
struct site {
  const char* file;
  uint line, column;
  constexpr bool operator==(const site& other) const {
    return line == other.line && column == other.column && file == other.file;
  }
};
#define SM_SITE                                            \
  ::softmetal::site {                                      \
    __builtin_FILE(), __builtin_LINE(), __builtin_COLUMN() \
  }

enum lane_state : uchar { ready, running, at_barrier, at_simd_operation, done };

// Text for an error, built without a C library.
struct Message {
  char text[512];
  uint length = 0;
  Message& operator<<(const char* s) {
    while (*s && length + 1 < sizeof text) text[length++] = *s++;
    text[length] = 0;
    return *this;
  }
  Message& operator<<(ulong number) {
    char digits[24];
    int n = 0;
    do digits[n++] = char('0' + number % 10);
    while (number /= 10);
    char forward[24];
    for (int i = 0; i < n; ++i) forward[i] = digits[n - 1 - i];
    forward[n] = 0;
    return *this << forward;
  }
  Message& operator<<(uint number) { return *this << ulong(number); }
  Message& operator<<(const site& where) {
    return *this << where.file << ":" << where.line << ":" << where.column;
  }
};

// One thread of the threadgroup.
struct Lane {
  void* stack_pointer;
  lane_state state;
};

// Thirty-two lanes, and the operation at which those that arrived wait for the others.
struct Simdgroup {
  uint arrived, alive;
  uint parity;       // which half of the double buffer the operation uses
  uint active[2];    // lanes that take part
  const char* name;  // of the operation
  site where;
  void (*complete)(Simdgroup&);  // computes its common result, once
  alignas(16) char value[2][SM_SIMD][16];
  alignas(16) char result[2][16];
};

// What the thread position attributes read.
struct Positions {
  uint3 threads;          // of this threadgroup: fewer at the edge of a non-uniform grid
  uint3 group;            // threadgroup_position_in_grid
  uint3 nominal_threads;  // dispatch_threads_per_threadgroup
  uint3 groups, grid;
  uint3 origin;  // thread_position_in_grid of thread 0
  uint simdgroups;
};

struct Group {
  sm_dispatch* dispatch;
  Positions positions;
  void (*body)(Group&, uint thread);

  // Scheduling: threads start as fibers in the order that sm_dispatch says, run until they wait,
  // and are resumed in such an order.
  void* worker_stack_pointer;
  Lane lane[SM_MAX_THREADS];
  Simdgroup simdgroup[SM_MAX_THREADS / SM_SIMD];
  uint threads, started, finished, current;
  ulong start_seed, release_seed;                                   // of shuffled orders
  uint runnable[SM_MAX_THREADS + 1], runnable_head, runnable_tail;  // a ring
  uint free_stacks[SM_MAX_THREADS + 1], free_stack_count, stack_count;
  uint starting_stack;            // of the fiber that is about to start
  void* discarded_stack_pointer;  // where a finished fiber's is "saved"

  uint waiting_at_barrier;
  site barrier;
  uint barrier_flags;  // mem_flags that all who wait there give

  // Threadgroup memory: arguments first, then the kernel's own variables.
  char* memory;
  uint argument_offset[SM_MAX_BUFFERS];
  uint argument_bytes, variable_bytes;
  uint gaps;     // bytes left free between them so far
  ulong serial;  // counts threadgroups
  uchar poison;

  Message failure;  // outlives the fiber that failed

  ulong switches, barriers, simd_operations, divergent_simd_operations;
};

// Fibers never leave their worker thread.
static thread_local Group* current_group = nullptr;

}  // namespace softmetal
