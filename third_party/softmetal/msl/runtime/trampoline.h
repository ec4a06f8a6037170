// From a dispatch to calls of a kernel: finds its arguments and runs one threadgroup.
#pragma once

#include "../library/bfloat.h"
#include "../library/integer.h"
#include "../library/vector_ops.h"
#include "scheduler.h"
#include "threadgroup_memory.h"

namespace softmetal {

// ---- arguments ----

// The parameter is a vector of one to three components of any integer type.
template <class T>
struct position {
  static T get(uint3 v) { return T(v.x); }
};
template <class T>
struct position<metal::vec<T, 2>> {
  static metal::vec<T, 2> get(uint3 v) { return {v.x, v.y}; }
};
template <class T>
struct position<metal::vec<T, 3>> {
  static metal::vec<T, 3> get(uint3 v) { return metal::vec<T, 3>(v); }
};

// A pointer or reference to memory.
template <class T>
struct memory_argument {
  static constexpr uint size = 0, align = 0;
  static constexpr bool is_pointer = false, is_const = true;
};
template <class T>
struct memory_argument<T*> {
  static T* get(void* p) { return (T*)p; }
  static constexpr uint size = sizeof(T), align = alignof(T);
  static constexpr bool is_pointer = true, is_const = __is_const(T);
};
template <class T>
struct void_argument {
  static T* get(void* p) { return (T*)p; }
  static constexpr uint size = 0, align = 0;
  static constexpr bool is_pointer = true, is_const = __is_const(T);
};
template <>
struct memory_argument<void*> : void_argument<void> {};
template <>
struct memory_argument<const void*> : void_argument<const void> {};
// What a reference refers to that a function constant leaves unbound. The compiler may read it
// before it looks at the constant; NaN, and not writable.
alignas(256) static const uchar unbound_argument[SM_MAX_SET_BYTES] = {
    [0 ... SM_MAX_SET_BYTES - 1] = 0xff};

template <class T>
struct memory_argument<T&> {
  static T& get(void* p) { return *(T*)(p ? p : (void*)unbound_argument); }
  static constexpr uint size = sizeof(T), align = alignof(T);
  static constexpr bool is_pointer = false, is_const = __is_const(T);
};

struct Thread {
  uint3 position;
  uint index;
};

// What a parameter of kind `kind` (enum sm_arg_kind) reads. Defined for each kind below.
template <int kind>
struct Source;

#define SM_POSITION(kind, expression)                             \
  template <>                                                     \
  struct Source<kind> {                                           \
    template <class T, int index>                                 \
    static T get(Group& g, const Thread& t) {                     \
      using V = metal::remove_cv_t<metal::remove_reference_t<T>>; \
      const Positions& p = g.positions;                           \
      (void)t, (void)p;                                           \
      return position<V>::get(expression);                        \
    }                                                             \
  };
SM_POSITION(SM_THREAD_POSITION_IN_GRID, p.origin + t.position)
SM_POSITION(SM_THREAD_POSITION_IN_THREADGROUP, t.position)
SM_POSITION(SM_THREADGROUP_POSITION_IN_GRID, p.group)
SM_POSITION(SM_THREADS_PER_THREADGROUP, p.threads)
SM_POSITION(SM_DISPATCH_THREADS_PER_THREADGROUP, p.nominal_threads)
SM_POSITION(SM_THREADGROUPS_PER_GRID, p.groups)
SM_POSITION(SM_THREADS_PER_GRID, p.grid)
SM_POSITION(SM_GRID_ORIGIN, uint3(0))
SM_POSITION(SM_THREAD_INDEX_IN_THREADGROUP, uint3(t.index))
SM_POSITION(SM_THREAD_INDEX_IN_SIMDGROUP, uint3(t.index % SM_SIMD))
SM_POSITION(SM_SIMDGROUP_INDEX_IN_THREADGROUP, uint3(t.index / SM_SIMD))
SM_POSITION(SM_SIMDGROUPS_PER_THREADGROUP, uint3(p.simdgroups))
SM_POSITION(SM_THREADS_PER_SIMDGROUP, uint3(SM_SIMD))
SM_POSITION(SM_THREAD_INDEX_IN_QUADGROUP, uint3(t.index % 4))
SM_POSITION(SM_QUADGROUP_INDEX_IN_THREADGROUP, uint3(t.index / 4))
SM_POSITION(SM_QUADGROUPS_PER_THREADGROUP, uint3((g.threads + 3) / 4))
#undef SM_POSITION
template <>
struct Source<SM_BUFFER> {
  template <class T, int index>
  static T get(Group& g, const Thread&) {
    return memory_argument<T>::get(g.dispatch->buffers[index]);
  }
};
template <>
struct Source<SM_THREADGROUP_MEM> {
  template <class T, int index>
  static T get(Group& g, const Thread&) {
    return memory_argument<T>::get(g.memory + g.argument_offset[index]);
  }
};

// Whether parameter n of a kernel has a type that MSL allows for positions (a vector of up to
// `lanes` components) and for indices (lanes 1).
template <class T, uint lanes>
struct position_type {
  static constexpr bool ok = metal::is_same_v<T, ushort> || metal::is_same_v<T, uint>;
};
template <class T, int n, uint lanes>
struct position_type<metal::vec<T, n>, lanes> {
  static constexpr bool ok = n <= lanes && position_type<T, 1>::ok;
};
template <class Signature, int n, uint lanes>
struct position_parameter;
template <class... T, int n, uint lanes>
struct position_parameter<void(T...), n, lanes>
    : position_type<metal::remove_cv_t<__type_pack_element<n, T...>>, lanes> {};

// MTLDataType of a function constant.
template <class T>
struct data_type {
  static constexpr int value = 0;
};
template <class T, int n>
struct data_type<metal::vec<T, n>> {
  static constexpr int value = data_type<T>::value ? data_type<T>::value + n - 1 : 0;
};
#define SM_DATA_TYPE(T, number)          \
  template <>                            \
  struct data_type<T> {                  \
    static constexpr int value = number; \
  };
SM_DATA_TYPE(float, 3)
SM_DATA_TYPE(half, 16)
SM_DATA_TYPE(int, 29)
SM_DATA_TYPE(uint, 33)
SM_DATA_TYPE(short, 37)
SM_DATA_TYPE(ushort, 41)
SM_DATA_TYPE(char, 45)
SM_DATA_TYPE(uchar, 49)
SM_DATA_TYPE(bool, 53)
SM_DATA_TYPE(long, 81)
SM_DATA_TYPE(ulong, 85)
SM_DATA_TYPE(bfloat, 121)
#undef SM_DATA_TYPE

// ---- one threadgroup ----

inline void start_positions(Group& g, uint3 group) {
  const sm_dispatch& d = *g.dispatch;
  Positions& p = g.positions;
  p.group = group;
  p.nominal_threads = uint3(d.tg[0], d.tg[1], d.tg[2]);
  p.groups = uint3(d.groups[0], d.groups[1], d.groups[2]);
  p.grid = uint3(d.grid[0], d.grid[1], d.grid[2]);
  p.origin = group * p.nominal_threads;
  p.threads = metal::min(p.nominal_threads, p.grid - p.origin);
  g.threads = p.threads.x * p.threads.y * p.threads.z;
  p.simdgroups = (g.threads + SM_SIMD - 1) / SM_SIMD;
  g.start_seed = d.seed + (group.x + ulong(d.groups[0]) * (group.y + ulong(d.groups[1]) * group.z));
  g.release_seed = ~g.start_seed;
}

inline void start_scheduling(Group& g) {
  g.started = g.finished = g.waiting_at_barrier = 0;
  g.runnable_head = g.runnable_tail = 0;
  g.free_stack_count = g.stack_count = 0;
  g.switches = g.barriers = g.simd_operations = g.divergent_simd_operations = 0;
  for (uint i = 0; i < g.threads; ++i) g.lane[i] = Lane{nullptr, ready};
  for (uint s = 0; s < g.positions.simdgroups; ++s) {
    uint rest = g.threads - s * SM_SIMD;
    g.simdgroup[s].alive = rest < SM_SIMD ? rest : SM_SIMD;
    g.simdgroup[s].arrived = g.simdgroup[s].parity = 0;
  }
}

inline void count(Group& g) {
  sm_dispatch& d = *g.dispatch;
  __atomic_fetch_add(&d.n_switches, g.switches, __ATOMIC_RELAXED);
  __atomic_fetch_add(&d.n_barriers, g.barriers, __ATOMIC_RELAXED);
  __atomic_fetch_add(&d.n_simd_ops, g.simd_operations, __ATOMIC_RELAXED);
  __atomic_fetch_add(&d.n_divergent_simd_ops, g.divergent_simd_operations, __ATOMIC_RELAXED);
}

// Program-scope constants that depend on function constants; mslc defines it.
static void compute_constants();

// What all kernels have in common, so that little code is made for each.
__attribute__((noinline)) static Group& start_group(sm_dispatch* d, void** worker_state,
                                                    uint3 group) {
  if (!*worker_state) *worker_state = d->alloc(sizeof(Group));
  Group& g = *(Group*)*worker_state;
  current_group = &g;
  g.dispatch = d;
  start_positions(g, group);
  start_threadgroup_memory(g);
  compute_constants();
  return g;
}
__attribute__((noinline)) static void run_fibers(Group& g, void (*body)(Group&, uint)) {
  g.body = body;
  start_scheduling(g);
  leave(g, &g.worker_stack_pointer);
  count(g);
}

// ---- kernels ----

// What mslc read from a parameter's declaration.
template <int kind, int index, bool is_constant, bool optional>
struct Parameter {};

template <bool no_sync, class Signature, Signature* function, class... Parameters>
struct Kernel;

template <bool no_sync, class... T, void (*function)(T...), int... kind, int... index,
          bool... is_constant, bool... optional>
struct Kernel<no_sync, void(T...), function, Parameter<kind, index, is_constant, optional>...> {
  static void call(Group& g, const Thread& thread) {
    // Threads are apart: what is the same for all is not moved out of the loop over them, where the
    // line of a check that fails would be lost.
    asm volatile("" ::: "memory");
    if (tracing) g.current = thread.index;
    function(Source<kind>::template get<T, index>(g, thread)...);
  }
  static void body(Group& g, uint thread) {
    uint3 size = g.positions.threads;
    uint x = thread % size.x, y = thread / size.x % size.y, z = thread / (size.x * size.y);
    call(g, Thread{uint3(x, y, z), thread});
  }
  static void loop(Group& g) {
    if (g.dispatch->order == SM_SHUFFLED) {
      for (uint n = 0; n < g.threads; ++n) body(g, start_order(g, n));
      return;
    }
    uint3 size = g.positions.threads;
    bool reverse = g.dispatch->order == SM_REVERSE;
    uint3 first = reverse ? size - 1u : uint3(0);
    uint thread = reverse ? g.threads - 1 : 0, step = reverse ? -1u : 1u;
    uint3 at = first;
    for (uint z = 0; z < size.z; ++z, at.z += step) {
      at.y = first.y;
      for (uint y = 0; y < size.y; ++y, at.y += step) {
        at.x = first.x;
        for (uint x = 0; x < size.x; ++x, at.x += step, thread += step) call(g, Thread{at, thread});
      }
    }
  }
  SM_UNTRACED static void run(sm_dispatch* d, void** worker_state, uint gx, uint gy, uint gz) {
    start_tracing(d);  // before anything else is traced
    run_group(d, worker_state, gx, gy, gz);
  }
  static void run_group(sm_dispatch* d, void** worker_state, uint gx, uint gy, uint gz) {
    Group& g = start_group(d, worker_state, uint3(gx, gy, gz));
    if constexpr (no_sync) {
      loop(g);
    } else {
      run_fibers(g, body);
    }
  }

  static sm_kernel describe(const char* name, const char* const* names, uint max_threads,
                            uint threadgroup_memory, const int* needed_constants) {
    static sm_arg arguments[] = {sm_arg{kind, index, nullptr, memory_argument<T>::size,
                                        memory_argument<T>::align, memory_argument<T>::is_pointer,
                                        memory_argument<T>::is_const, is_constant, optional}...,
                                 sm_arg{}};
    for (uint i = 0; i < sizeof...(T); ++i) arguments[i].name = names[i];
    return sm_kernel{name,        arguments,          int(sizeof...(T)), no_sync,
                     max_threads, threadgroup_memory, &Kernel::run,      needed_constants};
  }
};

}  // namespace softmetal
