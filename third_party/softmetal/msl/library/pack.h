// <metal_pack>: normalised integers in a word, from and to floats. Of 8 and 16 bits; those of 10,
// 565 and sRGB are not there.
#pragma once

#include "math.h"

namespace softmetal {

// `bits` of a word from `at` on as a number in [0, 1].
constexpr float unpack_unorm(uint word, int at, int bits) {
  uint largest = (1u << bits) - 1;
  return float(word >> at & largest) / float(largest);
}
// In [-1, 1]: the smallest integer counts as the one above it.
constexpr float unpack_snorm(uint word, int at, int bits) {
  int value = int(word << (32 - bits - at)) >> (32 - bits);
  float largest = float((1 << (bits - 1)) - 1);
  return value < -int(largest) ? -1.0f : float(value) / largest;
}
// To nearest, halves to even; what is out of range is the end of it, and NaN is 0.
inline uint pack_unorm(float x, int at, int bits) {
  float largest = float((1u << bits) - 1);
  float in_range = x > 0 ? (x < 1 ? x : 1.0f) : 0.0f;
  return uint(__builtin_rintf(in_range * largest)) << at;
}
inline uint pack_snorm(float x, int at, int bits) {
  float largest = float((1 << (bits - 1)) - 1);
  float in_range = x > -1 ? (x < 1 ? x : 1.0f) : x <= -1 ? -1.0f : 0.0f;
  return (uint(int(__builtin_rintf(in_range * largest))) & ((1u << bits) - 1)) << at;
}

}  // namespace softmetal

namespace metal {

#define SM_PACK(kind, T)                                                                      \
  inline vec<T, 4> unpack_##kind##4x8_to_##T(uint x) {                                        \
    using softmetal::unpack_##kind;                                                           \
    return {T(unpack_##kind(x, 0, 8)), T(unpack_##kind(x, 8, 8)), T(unpack_##kind(x, 16, 8)), \
            T(unpack_##kind(x, 24, 8))};                                                      \
  }                                                                                           \
  inline vec<T, 2> unpack_##kind##2x16_to_##T(uint x) {                                       \
    return {T(softmetal::unpack_##kind(x, 0, 16)), T(softmetal::unpack_##kind(x, 16, 16))};   \
  }                                                                                           \
  inline uint pack_##T##_to_##kind##4x8(vec<T, 4> x) {                                        \
    using softmetal::pack_##kind;                                                             \
    return pack_##kind(x[0], 0, 8) | pack_##kind(x[1], 8, 8) | pack_##kind(x[2], 16, 8) |     \
           pack_##kind(x[3], 24, 8);                                                          \
  }                                                                                           \
  inline uint pack_##T##_to_##kind##2x16(vec<T, 2> x) {                                       \
    return softmetal::pack_##kind(x[0], 0, 16) | softmetal::pack_##kind(x[1], 16, 16);        \
  }
SM_PACK(unorm, float)
SM_PACK(unorm, half)
SM_PACK(snorm, float)
SM_PACK(snorm, half)
#undef SM_PACK

}  // namespace metal
