// What the kernels use of Metal, in CUDA. Only names: every function does what Metal's does.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

// Kernels lie in a namespace of their own: names that CUDA has too (float4, min) are these.
namespace msl {

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef __half half;
typedef __nv_bfloat16 bfloat;

namespace metal {

template <class T, int n>
struct Lanes;

template <class T>
struct alignas(2 * sizeof(T)) Lanes<T, 2> {
  T x, y;
  Lanes() = default;
  __device__ Lanes(T x, T y) : x(x), y(y) {}
  __device__ T operator[](uint i) const { return i == 0 ? x : y; }
};

template <class T>
struct alignas(4 * sizeof(T)) Lanes<T, 4> {
  T x, y, z, w;
  Lanes() = default;
  __device__ Lanes(T x, T y, T z, T w) : x(x), y(y), z(z), w(w) {}
  __device__ T operator[](uint i) const { return i == 0 ? x : i == 1 ? y : i == 2 ? z : w; }
};

typedef Lanes<float, 4> float4;
typedef Lanes<uint, 2> uint2;
typedef Lanes<uint, 4> uint4;

__device__ inline float fma(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}
__device__ inline float sqrt(float x) {
  return __fsqrt_rn(x);
}
namespace precise {
using metal::sqrt;
}
__device__ inline uint mulhi(uint a, uint b) {
  return __umulhi(a, b);
}
template <class T>
__device__ inline T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
__device__ inline T max(T a, T b) {
  return a < b ? b : a;
}

// ---- the threads of a simdgroup and of a threadgroup ----

constexpr uint kAllLanes = 0xffffffffu;

template <class T>
__device__ inline T simd_shuffle_down(T x, ushort distance) {
  return __shfl_down_sync(kAllLanes, x, distance);
}
__device__ inline bool simd_any(bool x) {
  return __any_sync(kAllLanes, x);
}
__device__ inline bool simd_all(bool x) {
  return __all_sync(kAllLanes, x);
}

enum class mem_flags { mem_none, mem_device, mem_threadgroup };
__device__ inline void threadgroup_barrier(mem_flags) {
  __syncthreads();
}

struct atomic_uint {
  uint value;
};
enum memory_order { memory_order_relaxed };
__device__ inline void atomic_store_explicit(atomic_uint* to, uint value, memory_order) {
  *const_cast<volatile uint*>(&to->value) = value;
}

}  // namespace metal

// ---- bits: a name of its own for each pair of types, because To is not deduced ----

template <class To, class From>
__device__ inline To as_type(From x) {
  static_assert(sizeof(To) == sizeof(From), "as_type keeps the size");
  union {
    From from;
    To to;
  } bits = {x};
  return bits.to;
}
template <>
__device__ inline uint as_type<uint, float>(float x) {
  return __float_as_uint(x);
}
template <>
__device__ inline float as_type<float, uint>(uint x) {
  return __uint_as_float(x);
}
template <>
__device__ inline ushort as_type<ushort, half>(half x) {
  return __half_as_ushort(x);
}
template <>
__device__ inline half as_type<half, ushort>(ushort x) {
  return __ushort_as_half(x);
}

}  // namespace msl
