// <metal_atomic>: the operations that MSL has for each type, all relaxed, on memory that threads of
// any threadgroup share.
#pragma once

#include "../runtime/tracing.h"
#include "traits.h"

namespace metal {

enum memory_order {
  memory_order_relaxed = 0,
#if __METAL_VERSION__ >= 320
  memory_order_acquire,
  memory_order_release,
  memory_order_acq_rel,
  memory_order_seq_cst,
#endif
};
enum thread_scope {
  thread_scope_thread,
  thread_scope_simdgroup,
  thread_scope_threadgroup,
  thread_scope_device,
};

template <class T>
struct atomic {
  static_assert(__is_same(T, int) || __is_same(T, uint) || __is_same(T, bool) ||
                    __is_same(T, ulong) || __is_same(T, float),
                "atomic<T>: T must be int, uint, bool, ulong or float");
  T softmetal_value;

  atomic() = default;
  atomic(const atomic&) = delete;
  void operator=(const atomic&) = delete;
};
using atomic_int = atomic<int>;
using atomic_uint = atomic<uint>;
using atomic_bool = atomic<bool>;
using atomic_ulong = atomic<ulong>;
using atomic_float = atomic<float>;

}  // namespace metal

namespace softmetal {

template <class T>
SM_UNTRACED T* plain(const volatile metal::atomic<T>* object) {
  return const_cast<T*>(&object->softmetal_value);
}

template <class T>
using has_load = metal::enable_if_t<!metal::is_same_v<T, ulong>, bool>;
template <class T>
using has_add = metal::enable_if_t<
    metal::is_same_v<T, int> || metal::is_same_v<T, uint> || metal::is_same_v<T, float>, bool>;
template <class T>
using has_bits = metal::enable_if_t<metal::is_same_v<T, int> || metal::is_same_v<T, uint>, bool>;

// Read, compute, exchange until nobody came between. Returns the value before.
template <class T, class F>
SM_UNTRACED T update(volatile metal::atomic<T>* object, F f) {
  T* at = plain(object);
  T before, after;
  __atomic_load(at, &before, __ATOMIC_RELAXED);
  do {
    after = f(before);
  } while (
      !__atomic_compare_exchange(at, &before, &after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return before;
}

}  // namespace softmetal

namespace metal {

template <class T, softmetal::has_load<T> = true>
inline SM_ATOMIC_FUNCTION T atomic_load_explicit(const volatile atomic<T>* object, memory_order) {
  SM_TRACE_ATOMIC(object, SM_ATOMIC_READ);
  T r;
  __atomic_load(softmetal::plain(object), &r, __ATOMIC_RELAXED);
  return r;
}
template <class T, softmetal::has_load<T> = true>
inline SM_ATOMIC_FUNCTION void atomic_store_explicit(volatile atomic<T>* object,
                                                     softmetal::identity_t<T> value, memory_order) {
  SM_TRACE_ATOMIC(object, SM_ATOMIC_WRITE);
  __atomic_store(softmetal::plain(object), &value, __ATOMIC_RELAXED);
}
template <class T, softmetal::has_load<T> = true>
inline SM_ATOMIC_FUNCTION T atomic_exchange_explicit(volatile atomic<T>* object,
                                                     softmetal::identity_t<T> value, memory_order) {
  SM_TRACE_ATOMIC(object, SM_ATOMIC_UPDATE);
  T r;
  __atomic_exchange(softmetal::plain(object), &value, &r, __ATOMIC_RELAXED);
  return r;
}
template <class T, softmetal::has_load<T> = true>
inline SM_ATOMIC_FUNCTION bool atomic_compare_exchange_weak_explicit(
    volatile atomic<T>* object, softmetal::identity_t<T>* expected,
    softmetal::identity_t<T> desired, memory_order, memory_order) {
  SM_TRACE_ATOMIC(object, SM_ATOMIC_UPDATE);
  return __atomic_compare_exchange(softmetal::plain(object), expected, &desired, false,
                                   __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

#define SM_FETCH(name, available, expression)                                               \
  template <class T, softmetal::available<T> = true>                                        \
  inline SM_ATOMIC_FUNCTION T atomic_fetch_##name##_explicit(                               \
      volatile atomic<T>* object, softmetal::identity_t<T> value, memory_order) {           \
    SM_TRACE_ATOMIC(object, SM_ATOMIC_UPDATE);                                              \
    return softmetal::update(object, [value](T old) SM_UNTRACED { return T(expression); }); \
  }
SM_FETCH(add, has_add, old + value)
SM_FETCH(sub, has_add, old - value)
SM_FETCH(min, has_bits, value < old ? value : old)
SM_FETCH(max, has_bits, value > old ? value : old)
SM_FETCH(and, has_bits, old& value)
SM_FETCH(or, has_bits, old | value)
SM_FETCH(xor, has_bits, old ^ value)
#undef SM_FETCH

// The only operations on atomic_ulong (MSL 2.4).
inline SM_ATOMIC_FUNCTION void atomic_min_explicit(volatile atomic<ulong>* object, ulong value,
                                                   memory_order) {
  SM_TRACE_ATOMIC(object, SM_ATOMIC_UPDATE);
  softmetal::update(object, [value](ulong old) SM_UNTRACED { return value < old ? value : old; });
}
inline SM_ATOMIC_FUNCTION void atomic_max_explicit(volatile atomic<ulong>* object, ulong value,
                                                   memory_order) {
  SM_TRACE_ATOMIC(object, SM_ATOMIC_UPDATE);
  softmetal::update(object, [value](ulong old) SM_UNTRACED { return value > old ? value : old; });
}

}  // namespace metal
