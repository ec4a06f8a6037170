// Numbers as sums of two floats, about 48 bits: for what a GPU without float64 must not round yet.
// In the part of the language that C++ and Metal share. Dekker, 1971; Knuth, TAOCP 2, 4.2.2.
//
// A pair is good to some 2^-46. Where something is infinite, NaN or overflows, its low part is NaN
// or infinite and stands for 0: finite_or_zero() it before it is added to a high part. Right only
// where the compiler neither contracts nor reorders.
#pragma once

#if defined(__METAL_VERSION__)
#define MPS_DS_FMA metal::fma
#define MPS_DS_SQRT metal::precise::sqrt
#define MPS_DS_BITS(x) as_type<uint32_t>(x)
#define MPS_DS_FLOAT(bits) as_type<float>(bits)
#else
#include <cmath>
#include <cstdint>
#define MPS_DS_FMA std::fma
#define MPS_DS_SQRT std::sqrt
#define MPS_DS_BITS(x) __builtin_bit_cast(uint32_t, x)
#define MPS_DS_FLOAT(bits) __builtin_bit_cast(float, bits)
#endif

// Always: a copy that is not inlined would be compiled for the baseline of the CPU, without fma.
#define MPS_DS_INLINE inline __attribute__((always_inline))

struct FloatPair {
  float high;
  float low;
};

// On bits: fast math would drop a comparison with itself.
MPS_DS_INLINE float finite_or_zero(float x) {
  return (MPS_DS_BITS(x) & 0x7fffffffu) < 0x7f800000u ? x : 0.0f;
}

// a + b, exactly.
MPS_DS_INLINE FloatPair pair_sum(float a, float b) {
  float high = a + b;
  float from_b = high - a;
  return {high, (a - (high - from_b)) + (b - from_b)};
}

// a * b, exactly.
MPS_DS_INLINE FloatPair pair_product(float a, float b) {
  float high = a * b;
  return {high, MPS_DS_FMA(a, b, -high)};
}

// c * x
MPS_DS_INLINE FloatPair pair_scale(FloatPair c, float x) {
  FloatPair product = pair_product(c.high, x);
  product.low = MPS_DS_FMA(c.low, x, product.low);
  return product;
}

// a + b, whose high part is the sum rounded to nearest.
MPS_DS_INLINE FloatPair pair_add(FloatPair a, FloatPair b) {
  FloatPair sum = pair_sum(a.high, b.high);
  float low = finite_or_zero(sum.low + (a.low + b.low));
  float high = sum.high + low;
  return {high, low - (high - sum.high)};
}
