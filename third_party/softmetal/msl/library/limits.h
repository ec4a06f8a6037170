// <metal_limits>
#pragma once

#include "bfloat.h"

namespace metal {

template <class T>
struct numeric_limits {
  static constexpr bool is_specialized = is_integral_v<T>;
  static constexpr bool is_integer = true;
  static constexpr bool is_signed = __is_signed(T);
  static constexpr bool has_infinity = false;
  static constexpr bool has_quiet_NaN = false;
  static constexpr int digits = int(sizeof(T)) * 8 - is_signed;
  static constexpr T min() { return is_signed ? T(T(1) << (sizeof(T) * 8 - 1)) : T(0); }
  static constexpr T max() { return T(~min()); }
  static constexpr T lowest() { return min(); }
  static constexpr T infinity() { return T(0); }
  static constexpr T quiet_NaN() { return T(0); }
};

template <>
struct numeric_limits<bool> {
  static constexpr bool is_specialized = true;
  static constexpr bool is_integer = true;
  static constexpr bool is_signed = false;
  static constexpr bool has_infinity = false;
  static constexpr bool has_quiet_NaN = false;
  static constexpr int digits = 1;
  static constexpr bool min() { return false; }
  static constexpr bool max() { return true; }
  static constexpr bool lowest() { return false; }
  static constexpr bool infinity() { return false; }
  static constexpr bool quiet_NaN() { return false; }
};

// A floating-point type from the bits of its special values.
#define SM_FLOAT_LIMITS(T, Bits, mantissa, exponent, MAX, MIN, INF, QNAN, EPS)          \
  template <>                                                                           \
  struct numeric_limits<T> {                                                            \
    static constexpr bool is_specialized = true;                                        \
    static constexpr bool is_integer = false;                                           \
    static constexpr bool is_signed = true;                                             \
    static constexpr bool has_infinity = true;                                          \
    static constexpr bool has_quiet_NaN = true;                                         \
    static constexpr int digits = mantissa;                                             \
    static constexpr int max_exponent = exponent;                                       \
    static constexpr int min_exponent = 3 - exponent;                                   \
    static constexpr T max() { return __builtin_bit_cast(T, Bits(MAX)); }               \
    static constexpr T min() { return __builtin_bit_cast(T, Bits(MIN)); }               \
    static constexpr T lowest() { return -max(); }                                      \
    static constexpr T infinity() { return __builtin_bit_cast(T, Bits(INF)); }          \
    static constexpr T quiet_NaN() { return __builtin_bit_cast(T, Bits(QNAN)); }        \
    static constexpr T signaling_NaN() { return __builtin_bit_cast(T, Bits(INF | 1)); } \
    static constexpr T epsilon() { return __builtin_bit_cast(T, Bits(EPS)); }           \
    static constexpr T denorm_min() { return __builtin_bit_cast(T, Bits(1)); }          \
  };
SM_FLOAT_LIMITS(float, uint, 24, 128, 0x7f7fffff, 0x00800000, 0x7f800000, 0x7fc00000, 0x34000000)
SM_FLOAT_LIMITS(half, ushort, 11, 16, 0x7bff, 0x0400, 0x7c00, 0x7e00, 0x1400)
SM_FLOAT_LIMITS(bfloat, ushort, 8, 128, 0x7f7f, 0x0080, 0x7f80, 0x7fc0, 0x3c00)
#undef SM_FLOAT_LIMITS

}  // namespace metal
