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

// What is written below for F is written for float, and for several floats that the CPU takes at
// once (cpu_adam/vector_*.h): an F of its own has the operators and the functions of this block.
MPS_DS_INLINE float value_fma(float a, float b, float c) {
  return MPS_DS_FMA(a, b, c);
}
MPS_DS_INLINE float value_sqrt(float x) {
  return MPS_DS_SQRT(x);
}

// a < b ? x : y
MPS_DS_INLINE float value_where_less(float a, float b, float x, float y) {
  return a < b ? x : y;
}

// NaN if either is: on bits, because fast math would drop a comparison with itself.
MPS_DS_INLINE float value_max(float a, float b) {
  const bool a_is_nan = (MPS_DS_BITS(a) & 0x7fffffffu) > 0x7f800000u;
  return a > b || a_is_nan ? a : b;
}

// NaN stays NaN.
MPS_DS_INLINE float value_clamp(float x, float bound) {
  return x > bound ? bound : x < -bound ? -bound : x;
}

MPS_DS_INLINE float finite_or_zero(float x) {
  return (MPS_DS_BITS(x) & 0x7fffffffu) < 0x7f800000u ? x : 0.0f;
}

template <class F>
struct Pair {
  F high;
  F low;
};

typedef Pair<float> FloatPair;

// a + b, exactly.
template <class F>
MPS_DS_INLINE Pair<F> pair_sum(F a, F b) {
  F high = a + b;
  F from_b = high - a;
  return {high, (a - (high - from_b)) + (b - from_b)};
}

// a * b, exactly.
template <class F>
MPS_DS_INLINE Pair<F> pair_product(F a, F b) {
  F high = a * b;
  return {high, value_fma(a, b, -high)};
}

// c * x
template <class F>
MPS_DS_INLINE Pair<F> pair_scale(FloatPair c, F x) {
  Pair<F> product = pair_product(F(c.high), x);
  product.low = value_fma(F(c.low), x, product.low);
  return product;
}

// a + b, whose high part is the sum rounded to nearest.
template <class F>
MPS_DS_INLINE Pair<F> pair_add(Pair<F> a, Pair<F> b) {
  Pair<F> sum = pair_sum(a.high, b.high);
  F low = finite_or_zero(sum.low + (a.low + b.low));
  F high = sum.high + low;
  return {high, low - (high - sum.high)};
}

// NaN stays NaN.
template <class F>
MPS_DS_INLINE Pair<F> pair_clamp(Pair<F> x, float bound) {
  const F zero = F(0.0f);
  const F below = value_where_less(x.high, F(bound), x.low, zero);
  return {value_clamp(x.high, bound), value_where_less(F(-bound), x.high, below, zero)};
}

// The larger of two numbers; NaN if either is one.
template <class F>
MPS_DS_INLINE Pair<F> pair_max(F a, Pair<F> b) {
  return {value_max(a, b.high), value_where_less(b.high, a, F(0.0f), b.low)};
}
