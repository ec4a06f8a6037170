// How values lie in memory, and their conversions one at a time. All conversions to 16 bits round
// to nearest even and keep NaN; the vectors of vector_*.h agree with these bit for bit.
#pragma once

#include <cstdint>

namespace mps_ds::cpu_adam {

enum class Storage : uint8_t { kFloat32, kFloat16, kBFloat16 };

struct Float16 {
  uint16_t bits;
};

struct BFloat16 {
  uint16_t bits;
};

constexpr int64_t bytes_of(Storage storage) {
  return storage == Storage::kFloat32 ? 4 : 2;
}

inline uint32_t bits_of(float x) {
  return __builtin_bit_cast(uint32_t, x);
}
inline float from_bits(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

inline float to_float(float x) {
  return x;
}

inline float to_float(BFloat16 x) {
  return from_bits(uint32_t{x.bits} << 16);
}

inline float to_float(Float16 x) {
  const uint32_t sign = uint32_t{x.bits & 0x8000u} << 16;
  const uint32_t magnitude = x.bits & 0x7fffu;
  if (magnitude < 0x0400)  // subnormal: a multiple of 2^-24
    return from_bits(sign | bits_of(static_cast<float>(magnitude) * 0x1p-24f));
  if (magnitude < 0x7c00) return from_bits(sign | ((magnitude << 13) + 0x38000000u));
  const uint32_t quiet = magnitude > 0x7c00 ? 0x00400000u : 0;
  return from_bits(sign | 0x7f800000u | (magnitude << 13) | quiet);
}

template <class T>
T from_float(float x);

template <>
inline float from_float<float>(float x) {
  return x;
}

template <>
inline BFloat16 from_float<BFloat16>(float x) {
  const uint32_t bits = bits_of(x);
  const uint32_t high = bits >> 16;
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>(high | 0x0040)};
  return {static_cast<uint16_t>((bits + 0x7fffu + (high & 1)) >> 16)};
}

template <>
inline Float16 from_float<Float16>(float x) {
  const uint32_t bits = bits_of(x);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t result;
  if (magnitude > 0x7f800000u) {
    result = 0x7e00u | (magnitude >> 13 & 0x03ffu);
  } else if (magnitude >= 0x47800000u) {  // 2^16
    result = 0x7c00u;
  } else if (magnitude >= 0x38800000u) {  // 2^-14, the smallest that is normal
    result = (magnitude + 0x0fffu + (magnitude >> 13 & 1) - 0x38000000u) >> 13;
  } else {  // the last bit of 0.5f counts 2^-24, as that of a subnormal does: the sum rounds
    result = bits_of(from_bits(magnitude) + 0.5f) - bits_of(0.5f);
  }
  return {static_cast<uint16_t>(sign | result)};
}

}  // namespace mps_ds::cpu_adam
