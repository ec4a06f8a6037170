// Declarations for reading MSL as C++ for OpenCL (../../mslc/opencl_check.py), whose compiler knows
// address spaces. Nothing here runs, so functions are as general as their use in kernels allows;
// only what is said about address spaces matters.
#pragma once
#pragma clang system_header
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

// Names that OpenCL predefines with another meaning.
#define atomic_int metal_atomic_int
#define atomic_uint metal_atomic_uint
#define atomic_bool metal_atomic_bool
#define atomic_float metal_atomic_float
#define atomic_ulong metal_atomic_ulong
#define memory_order_relaxed metal_memory_order_relaxed

#include "../library/traits.h"
#include "../softmetal_macros.h"

struct bfloat {
  ushort softmetal_bits;
  bfloat() = default;
  explicit bfloat(float value);
  operator float() const;
};

namespace metal {
using ::as_type;

template <class T>
struct numeric_limits {
  static T min();
  static T max();
  static T lowest();
  static T infinity();
  static T quiet_NaN();
  static T epsilon();
};

// Native vectors: kernel parameters may not be classes. A constructor call float2(a, b) is
// rewritten to softmetal_make_float2(a, b).
template <class T, int N>
using vec = T __attribute__((ext_vector_type(N)));
#define SM_VECTOR(T, N)                               \
  typedef T T##N __attribute__((ext_vector_type(N))); \
  template <class... A>                               \
  T##N softmetal_make_##T##N(A...);
#define SM_VECTORS(T) SM_VECTOR(T, 2) SM_VECTOR(T, 3) SM_VECTOR(T, 4)
SM_VECTORS(char)
SM_VECTORS(uchar)
SM_VECTORS(short)
SM_VECTORS(ushort)
SM_VECTORS(int)
SM_VECTORS(uint)
SM_VECTORS(long)
SM_VECTORS(ulong)
SM_VECTORS(half)
SM_VECTORS(float)
#undef SM_VECTORS
#undef SM_VECTOR

#define SM_FUNCTION1(name) \
  template <class T>       \
  T name(T);
#define SM_FUNCTION2(name)    \
  template <class A, class B> \
  decltype(A() + B()) name(A, B);
#define SM_FUNCTION3(name)             \
  template <class A, class B, class C> \
  decltype(A() + B() + C()) name(A, B, C);
// clang-format off: it moves the list anew each time
#define SM_MATH \
  SM_FUNCTION1(acos) SM_FUNCTION1(asin) SM_FUNCTION1(atan) SM_FUNCTION1(abs) \
  SM_FUNCTION1(ceil) SM_FUNCTION1(cos) SM_FUNCTION1(exp) SM_FUNCTION1(exp2) \
  SM_FUNCTION1(exp10) SM_FUNCTION1(fabs) SM_FUNCTION1(floor) SM_FUNCTION1(fract) \
  SM_FUNCTION1(log) SM_FUNCTION1(log2) SM_FUNCTION1(log10) SM_FUNCTION1(rint) \
  SM_FUNCTION1(round) SM_FUNCTION1(rsqrt) SM_FUNCTION1(saturate) SM_FUNCTION1(sign) \
  SM_FUNCTION1(sin) SM_FUNCTION1(sqrt) SM_FUNCTION1(tan) SM_FUNCTION1(tanh) \
  SM_FUNCTION1(trunc) SM_FUNCTION2(atan2) SM_FUNCTION2(copysign) SM_FUNCTION2(divide) \
  SM_FUNCTION2(fmax) SM_FUNCTION2(fmin) SM_FUNCTION2(fmod) SM_FUNCTION2(max) \
  SM_FUNCTION2(min) SM_FUNCTION2(pow) SM_FUNCTION2(powr) SM_FUNCTION3(clamp) \
  SM_FUNCTION3(fma) SM_FUNCTION3(mix) SM_FUNCTION3(max3) SM_FUNCTION3(min3)
// clang-format on
SM_MATH
namespace precise {
SM_MATH
}
namespace fast {
SM_MATH
}
SM_FUNCTION1(clz)
SM_FUNCTION1(ctz)
SM_FUNCTION1(popcount)
SM_FUNCTION2(mulhi)
SM_FUNCTION2(rotate)
template <class T>
T select(T, T, bool);
bool isnan(float);
bool isinf(float);
bool isfinite(float);
bool signbit(float);
template <class T>
bool any(T);
template <class T>
bool all(T);

enum class mem_flags { mem_none, mem_device, mem_threadgroup };
mem_flags operator|(mem_flags, mem_flags);
void threadgroup_barrier(mem_flags);
void simdgroup_barrier(mem_flags);

SM_FUNCTION1(simd_sum)
SM_FUNCTION1(simd_product)
SM_FUNCTION1(simd_min)
SM_FUNCTION1(simd_max)
SM_FUNCTION1(simd_and)
SM_FUNCTION1(simd_or)
SM_FUNCTION1(simd_xor)
SM_FUNCTION1(simd_broadcast_first)
SM_FUNCTION1(simd_prefix_inclusive_sum)
SM_FUNCTION1(simd_prefix_exclusive_sum)
#define SM_SHUFFLE(name) \
  template <class T>     \
  T name(T, ushort);
SM_SHUFFLE(simd_broadcast)
SM_SHUFFLE(simd_shuffle)
SM_SHUFFLE(simd_shuffle_down)
SM_SHUFFLE(simd_shuffle_up)
SM_SHUFFLE(simd_shuffle_xor)
#undef SM_SHUFFLE
bool simd_any(bool);
bool simd_all(bool);
bool simd_is_first();

// Atomic objects are in device or threadgroup memory.
enum memory_order { memory_order_relaxed };
template <class T>
struct atomic {
  T softmetal_value;
};
// Complete, or they could not be kernel parameters.
template struct atomic<int>;
template struct atomic<uint>;
template struct atomic<bool>;
template struct atomic<float>;
template struct atomic<ulong>;
using atomic_int = atomic<int>;
using atomic_uint = atomic<uint>;
using atomic_bool = atomic<bool>;
using atomic_float = atomic<float>;
using atomic_ulong = atomic<ulong>;
#define SM_FETCH(name, space) \
  template <class T>          \
  T atomic_##name##_explicit(volatile space atomic<T>*, softmetal::identity_t<T>, memory_order);
#define SM_ATOMIC(space)                                                                         \
  template <class T>                                                                             \
  T atomic_load_explicit(const volatile space atomic<T>*, memory_order);                         \
  template <class T>                                                                             \
  void atomic_store_explicit(volatile space atomic<T>*, softmetal::identity_t<T>, memory_order); \
  template <class T>                                                                             \
  bool atomic_compare_exchange_weak_explicit(                                                    \
      volatile space atomic<T>*, __private softmetal::identity_t<T>*, softmetal::identity_t<T>,  \
      memory_order, memory_order);                                                               \
  SM_FETCH(exchange, space)                                                                      \
  SM_FETCH(fetch_add, space)                                                                     \
  SM_FETCH(fetch_sub, space)                                                                     \
  SM_FETCH(fetch_min, space)                                                                     \
  SM_FETCH(fetch_max, space)                                                                     \
  SM_FETCH(fetch_and, space) SM_FETCH(fetch_or, space) SM_FETCH(fetch_xor, space)
SM_ATOMIC(__global)
SM_ATOMIC(__local)
#undef SM_ATOMIC
#undef SM_FETCH
#undef SM_FUNCTION1
#undef SM_FUNCTION2
#undef SM_FUNCTION3
}  // namespace metal

using metal::vec;
#define SM_GLOBAL(T, N) \
  using metal::T##N;    \
  using metal::softmetal_make_##T##N;
#define SM_GLOBALS(T) SM_GLOBAL(T, 2) SM_GLOBAL(T, 3) SM_GLOBAL(T, 4)
SM_GLOBALS(char)
SM_GLOBALS(uchar)
SM_GLOBALS(short)
SM_GLOBALS(ushort)
SM_GLOBALS(int)
SM_GLOBALS(uint)
SM_GLOBALS(long)
SM_GLOBALS(ulong)
SM_GLOBALS(half)
SM_GLOBALS(float)
#undef SM_GLOBALS
#undef SM_GLOBAL
using metal::atomic_bool;
using metal::atomic_float;
using metal::atomic_int;
using metal::atomic_uint;
using metal::atomic_ulong;
