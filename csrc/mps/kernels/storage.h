// Elements as they are stored, and as the fp32 that kernels compute in. `type` is a function
// constant where these are called: what a pipeline does not need is gone.
//
// bfloat16 is converted on integer bits: GPUs that flush subnormals do so in their conversions too.
#pragma once

#include <metal_stdlib>

#include "storage_types.h"

// To the nearest, ties to even; NaN stays NaN, with its quiet bit set. `may_be_nan` false saves the
// question.
inline uint bfloat_bits(float x, bool may_be_nan = true) {
  const uint bits = as_type<uint>(x);
  if (may_be_nan && (bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16) | 0x40u;
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

inline float float_of_bfloat(uint bits) {
  return as_type<float>(bits << 16);
}

inline uint half_bits(float x) {
  return as_type<ushort>(half(x));
}

inline float float_of_half(uint bits) {
  return float(as_type<half>(ushort(bits)));
}

inline float float_of_bits(uint bits, uint type) {
  return type == STORAGE_FLOAT16 ? float_of_half(bits) : float_of_bfloat(bits);
}

inline uint bits_of_float(float x, uint type, bool may_be_nan = true) {
  return type == STORAGE_FLOAT16 ? half_bits(x) : bfloat_bits(x, may_be_nan);
}

inline float load_element(device const void* from, ulong i, uint type) {
  if (type == STORAGE_FLOAT32) return ((device const float*)from)[i];
  return float_of_bits(((device const ushort*)from)[i], type);
}

inline void store_element(device void* to, ulong i, uint type, float x) {
  if (type == STORAGE_FLOAT32) {
    ((device float*)to)[i] = x;
  } else {
    ((device ushort*)to)[i] = ushort(bits_of_float(x, type));
  }
}

// Two 16-bit elements of a word, the lower first.
inline void unpack_word(uint word, uint type, thread float* x) {
  x[0] = float_of_bits(word & 0xffffu, type);
  x[1] = float_of_bits(word >> 16, type);
}

inline uint pack_word(thread const float* x, uint type, bool may_be_nan) {
  return bits_of_float(x[0], type, may_be_nan) | (bits_of_float(x[1], type, may_be_nan) << 16);
}

// `width` (4 or 8) elements from `first`, a multiple of `width`, of a base aligned to 16 bytes.
inline void load_block(device const void* from, ulong first, uint type, uint width,
                       thread float* x) {
  if (type == STORAGE_FLOAT32) {
    device const metal::float4* blocks = (device const metal::float4*)from + first / 4;
    for (uint k = 0; k < width; k += 4) {
      const metal::float4 block = blocks[k / 4];
      for (uint lane = 0; lane < 4; ++lane) x[k + lane] = block[lane];
    }
  } else if (width == 8u) {
    const metal::uint4 words = ((device const metal::uint4*)from)[first / 8];
    for (uint k = 0; k < 4; ++k) unpack_word(words[k], type, x + 2 * k);
  } else {
    const metal::uint2 words = ((device const metal::uint2*)from)[first / 4];
    for (uint k = 0; k < 2; ++k) unpack_word(words[k], type, x + 2 * k);
  }
}

inline void store_block(device void* to, ulong first, uint type, uint width, thread const float* x,
                        bool may_be_nan = true) {
  if (type == STORAGE_FLOAT32) {
    device metal::float4* blocks = (device metal::float4*)to + first / 4;
    for (uint k = 0; k < width; k += 4)
      blocks[k / 4] = metal::float4(x[k], x[k + 1], x[k + 2], x[k + 3]);
  } else if (width == 8u) {
    ((device metal::uint4*)to)[first / 8] =
        metal::uint4(pack_word(x, type, may_be_nan), pack_word(x + 2, type, may_be_nan),
                     pack_word(x + 4, type, may_be_nan), pack_word(x + 6, type, may_be_nan));
  } else {
    ((device metal::uint2*)to)[first / 4] =
        metal::uint2(pack_word(x, type, may_be_nan), pack_word(x + 2, type, may_be_nan));
  }
}
