// CUDA's words for a processor: one thread at a time, one after the other. Enough for kernels whose
// threads do not wait for each other.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(threads)
#define __forceinline__ inline

struct Place {
  unsigned x;
};
inline Place blockIdx, blockDim, threadIdx;

typedef _Float16 __half;

template <class To, class From>
To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "of one size");
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

inline unsigned __float_as_uint(float x) {
  return bits_as<unsigned>(x);
}
inline float __uint_as_float(unsigned x) {
  return bits_as<float>(x);
}
inline unsigned short __half_as_ushort(__half x) {
  return bits_as<unsigned short>(x);
}
inline __half __ushort_as_half(unsigned short x) {
  return bits_as<__half>(x);
}
inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline float __fsqrt_rn(float x) {
  return std::sqrt(x);
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32);
}

// A thread that would wait for others stops the program.
template <class T>
T __shfl_down_sync(unsigned, T, unsigned) {
  std::abort();
}
inline int __any_sync(unsigned, int) {
  std::abort();
}
inline int __all_sync(unsigned, int) {
  std::abort();
}
inline void __syncthreads() {
  std::abort();
}
