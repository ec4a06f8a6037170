// bfloat (MSL 3.1), kept as its 16 bits. It widens to float implicitly and never narrows
// implicitly. Conversions work on integers, so that no floating-point mode (flushed subnormals)
// reaches them.
#pragma once

#include "traits.h"

struct bfloat {
  ushort softmetal_bits;

  bfloat() = default;
  constexpr explicit bfloat(float value) : softmetal_bits(round(value)) {}
  constexpr explicit bfloat(half value) : softmetal_bits(round(float(value))) {}
  // A template, because float -> int -> bfloat must not become an implicit conversion.
  template <class I, softmetal::integral_only<I> = true>
  constexpr bfloat(I value) : softmetal_bits(round(float(value))) {}

  constexpr operator float() const { return __builtin_bit_cast(float, uint(softmetal_bits) << 16); }
  constexpr bfloat operator-() const { return from_bits(softmetal_bits ^ 0x8000); }

  static constexpr bfloat from_bits(ushort bits) {
    bfloat r{};
    r.softmetal_bits = bits;
    return r;
  }

 private:
  // To nearest, ties to even; a NaN stays one (quiet, with the upper bits of its payload).
  static constexpr ushort round(float value) {
    uint bits = __builtin_bit_cast(uint, value);
    bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    if (nan) return ushort((bits >> 16) | 0x40u);
    return ushort((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  }
};

// bfloat op bfloat and bfloat op integer are bfloat; with float or half the result is float, by the
// conversion above.
#define SM_BFLOAT_ARITHMETIC(op)                            \
  constexpr bfloat operator op(bfloat a, bfloat b) {        \
    return bfloat(float(a) op float(b));                    \
  }                                                         \
  template <class I, softmetal::integral_only<I> = true>    \
  constexpr bfloat operator op(bfloat a, I b) {             \
    return a op bfloat(b);                                  \
  }                                                         \
  template <class I, softmetal::integral_only<I> = true>    \
  constexpr bfloat operator op(I a, bfloat b) {             \
    return bfloat(a) op b;                                  \
  }                                                         \
  constexpr bfloat& operator op## = (bfloat & a, float b) { \
    return a = bfloat(float(a) op b);                       \
  }
SM_BFLOAT_ARITHMETIC(+)
SM_BFLOAT_ARITHMETIC(-)
SM_BFLOAT_ARITHMETIC(*)
SM_BFLOAT_ARITHMETIC(/)
#undef SM_BFLOAT_ARITHMETIC

// bfloat op integer would be ambiguous among the built-in comparisons.
#define SM_BFLOAT_COMPARISON(op)                         \
  template <class I, softmetal::integral_only<I> = true> \
  constexpr bool operator op(bfloat a, I b) {            \
    return float(a) op float(b);                         \
  }                                                      \
  template <class I, softmetal::integral_only<I> = true> \
  constexpr bool operator op(I a, bfloat b) {            \
    return float(a) op float(b);                         \
  }
SM_BFLOAT_COMPARISON(<)
SM_BFLOAT_COMPARISON(>)
SM_BFLOAT_COMPARISON(<=)
SM_BFLOAT_COMPARISON(>=)
SM_BFLOAT_COMPARISON(==)
SM_BFLOAT_COMPARISON(!=)
#undef SM_BFLOAT_COMPARISON

namespace metal {
using ::bfloat;
}
