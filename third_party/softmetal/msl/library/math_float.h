// The functions of <metal_math> for float. `real` holds them under their MSL names.
#pragma once

#include "bfloat.h"

namespace softmetal {

template <class T>
using real_only = metal::enable_if_t<metal::is_same_v<T, float> || metal::is_same_v<T, half>, bool>;

namespace real {

// Exact, or correctly rounded, as they are.
#define SM_EXACT1(name)            \
  inline float name(float x) {     \
    return __builtin_##name##f(x); \
  }
SM_EXACT1(ceil)
SM_EXACT1(fabs)
SM_EXACT1(floor)
SM_EXACT1(rint)
SM_EXACT1(round)
SM_EXACT1(sqrt)
SM_EXACT1(trunc)
#undef SM_EXACT1
#define SM_EXACT2(name)                 \
  inline float name(float x, float y) { \
    return __builtin_##name##f(x, y);   \
  }
SM_EXACT2(copysign)
SM_EXACT2(fmax)
SM_EXACT2(fmin)
SM_EXACT2(fmod)
#undef SM_EXACT2

// Computed in double and rounded once: within 0.51 ulp whatever the C library's float versions do.
#define SM_IN_DOUBLE(name)                     \
  inline float name(float x) {                 \
    return float(__builtin_##name(double(x))); \
  }
SM_IN_DOUBLE(acos)
SM_IN_DOUBLE(acosh)
SM_IN_DOUBLE(asin)
SM_IN_DOUBLE(asinh)
SM_IN_DOUBLE(atan)
SM_IN_DOUBLE(atanh)
SM_IN_DOUBLE(cos)
SM_IN_DOUBLE(cosh)
SM_IN_DOUBLE(exp)
SM_IN_DOUBLE(exp2)
SM_IN_DOUBLE(exp10)
SM_IN_DOUBLE(log)
SM_IN_DOUBLE(log2)
SM_IN_DOUBLE(log10)
SM_IN_DOUBLE(sin)
SM_IN_DOUBLE(sinh)
SM_IN_DOUBLE(tan)
SM_IN_DOUBLE(tanh)
#undef SM_IN_DOUBLE
inline float atan2(float y, float x) {
  return float(__builtin_atan2(double(y), double(x)));
}
inline float pow(float x, float y) {
  return float(__builtin_pow(double(x), double(y)));
}

inline float abs(float x) {
  return __builtin_fabsf(x);
}
inline float max(float x, float y) {
  return __builtin_fmaxf(x, y);
}
inline float min(float x, float y) {
  return __builtin_fminf(x, y);
}
inline float divide(float x, float y) {
  return x / y;
}
inline float fdim(float x, float y) {
  return x > y ? x - y : (x <= y ? 0.0f : x + y);
}
inline float rsqrt(float x) {
  return float(1.0 / __builtin_sqrt(double(x)));
}
// pow for x >= 0 only.
inline float powr(float x, float y) {
  return x < 0.0f ? __builtin_nanf("") : pow(x, y);
}
// The largest float below 1 where x is a tiny negative number.
inline float fract(float x) {
  float r = x - __builtin_floorf(x);
  return r < 0x1.fffffep-1f ? r : (r != r ? r : 0x1.fffffep-1f);
}
// NaN gives 0, a zero keeps its sign.
inline float sign(float x) {
  return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x == 0.0f ? x : 0.0f;
}
inline float step(float edge, float x) {
  return x < edge ? 0.0f : 1.0f;
}

// sin(pi x) and friends: x - rint(x) is exact, and the sine near its zeros.
constexpr double pi = 3.141592653589793238;
inline bool is_odd(double whole) {
  return __builtin_fmod(whole, 2.0) != 0.0;
}
inline float sinpi(float x) {
  double whole = __builtin_rint(double(x)), rest = double(x) - whole;
  if (rest == 0.0) return __builtin_copysignf(0.0f, x);
  double sine = __builtin_sin(pi * rest);
  return float(is_odd(whole) ? -sine : sine);
}
inline float cospi(float x) {
  double whole = __builtin_rint(double(x)), rest = double(x) - whole;
  double cosine = __builtin_sin(pi * (0.5 - __builtin_fabs(rest)));
  return float(is_odd(whole) ? -cosine : cosine);
}
inline float tanpi(float x) {
  double rest = double(x) - __builtin_rint(double(x));
  return float(__builtin_sin(pi * rest) / __builtin_sin(pi * (0.5 - __builtin_fabs(rest))));
}

inline float clamp(float x, float low, float high) {
  return min(max(x, low), high);
}
inline float saturate(float x) {
  return clamp(x, 0.0f, 1.0f);
}
inline float max3(float x, float y, float z) {
  return max(x, max(y, z));
}
inline float min3(float x, float y, float z) {
  return min(x, min(y, z));
}
inline float median3(float x, float y, float z) {
  return max(min(x, y), min(max(x, y), z));
}
inline float fmax3(float x, float y, float z) {
  return max3(x, y, z);
}
inline float fmin3(float x, float y, float z) {
  return min3(x, y, z);
}
inline float fmedian3(float x, float y, float z) {
  return median3(x, y, z);
}
inline float mix(float x, float y, float t) {
  return x + (y - x) * t;
}
inline float smoothstep(float low, float high, float x) {
  float t = saturate((x - low) / (high - low));
  return t * t * (3.0f - 2.0f * t);
}

// Exact in double whenever it could matter to a half: the product has 22 bits, and a sum too wide
// for 53 bits has one term far below the last bit of the other. So it rounds once.
inline half fma_half(half a, half b, half c) {
  return half(double(a) * double(b) + double(c));
}
inline half fraction(half x, half whole) {
  bool infinite = float(whole) - float(whole) != 0.0f && float(x) == float(x);
  return infinite ? half(__builtin_copysignf(0.0f, float(x)))
                  : half(__builtin_copysignf(float(x) - float(whole), float(x)));
}

// The neighbour of x towards y. Bits of a finite number count up with its magnitude.
template <class Bits, class T>
inline T nextafter(T x, T y) {
  if (x != x || y != y) return x + y;
  const Bits sign_bit = Bits(Bits(1) << (sizeof(Bits) * 8 - 1));
  Bits bits = __builtin_bit_cast(Bits, x), target = __builtin_bit_cast(Bits, y);
  if (bits == target) return y;
  if (Bits(bits << 1) == 0) {
    if (Bits(target << 1) == 0) return y;
    return __builtin_bit_cast(T, Bits((target & sign_bit) | 1));
  }
  bool negative = bits & sign_bit;
  bool upwards = float(y) > float(x);
  return __builtin_bit_cast(T, Bits(upwards != negative ? bits + 1 : bits - 1));
}

// As MSL: INT_MIN for 0, INT_MAX for infinity and NaN.
inline int ilogb(float x) {
  if (x == 0.0f) return -2147483647 - 1;
  if (x - x != 0.0f) return 2147483647;
  int exponent = 0;
  __builtin_frexpf(x, &exponent);
  return exponent - 1;
}

}  // namespace real
}  // namespace softmetal
