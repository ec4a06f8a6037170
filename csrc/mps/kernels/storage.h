// How elements lie in memory, and reading and writing them as float. `type` is a STORAGE_*: as a
// function constant it costs nothing, because a pipeline keeps one branch.
//
// bfloat16 is converted on integer bits: Apple GPUs flush subnormals in conversions from bfloat,
// and MSL does not say what becomes of a NaN. All conversions round to nearest even.
#pragma once

#define STORAGE_FLOAT32 0u
#define STORAGE_FLOAT16 1u
#define STORAGE_BFLOAT16 2u

#if defined(__METAL_VERSION__)

// The upper half of a float's bits, rounded. A NaN stays one, and becomes quiet.
inline ushort bfloat16_bits(float x) {
  const uint bits = as_type<uint>(x);
  const uint high = bits >> 16;
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return ushort(nan ? high | 0x0040u : (bits + 0x7fffu + (high & 1u)) >> 16);
}

// Two neighbours in one word: the first is in the low half.
inline uint bfloat16_bits(float first, float second) {
  return uint(bfloat16_bits(first)) | uint(bfloat16_bits(second)) << 16;
}

inline float4 float_of_bfloat16(uint2 words) {
  return as_type<float4>(
      uint4(words.x << 16, words.x & 0xffff0000u, words.y << 16, words.y & 0xffff0000u));
}

inline float4 float_of_float16(uint2 words) {
  return float4(as_type<half4>(words));
}

inline uint2 bfloat16_words(float4 x) {
  return uint2(bfloat16_bits(x.x, x.y), bfloat16_bits(x.z, x.w));
}

inline uint2 float16_words(float4 x) {
  return as_type<uint2>(half4(x));
}

// Element i.
inline float load_element(device const void* p, ulong i, uint type) {
  if (type == STORAGE_FLOAT32) return ((device const float*)p)[i];
  if (type == STORAGE_FLOAT16) return float(((device const half*)p)[i]);
  return as_type<float>(uint(((device const ushort*)p)[i]) << 16);
}

inline void store_element(device void* p, ulong i, uint type, float x) {
  if (type == STORAGE_FLOAT32) {
    ((device float*)p)[i] = x;
  } else if (type == STORAGE_FLOAT16) {
    ((device half*)p)[i] = half(x);
  } else {
    ((device ushort*)p)[i] = bfloat16_bits(x);
  }
}

// Elements 4 * block and the three after it. `p` is aligned to four elements: 16 or 8 bytes.
inline float4 load_4(device const void* p, ulong block, uint type) {
  if (type == STORAGE_FLOAT32) return ((device const float4*)p)[block];
  const uint2 words = ((device const uint2*)p)[block];
  return type == STORAGE_FLOAT16 ? float_of_float16(words) : float_of_bfloat16(words);
}

inline void store_4(device void* p, ulong block, uint type, float4 x) {
  if (type == STORAGE_FLOAT32) {
    ((device float4*)p)[block] = x;
  } else {
    ((device uint2*)p)[block] = type == STORAGE_FLOAT16 ? float16_words(x) : bfloat16_words(x);
  }
}

struct Float8 {
  float4 low;  // the first four
  float4 high;
};

// Elements 8 * block and the seven after it. `p` is aligned to 16 bytes: one load of 16-bit
// elements, two of float32.
inline Float8 load_8(device const void* p, ulong block, uint type) {
  if (type == STORAGE_FLOAT32) {
    device const float4* quads = (device const float4*)p + 2 * block;
    return {quads[0], quads[1]};
  }
  const uint4 words = ((device const uint4*)p)[block];
  if (type == STORAGE_FLOAT16) return {float_of_float16(words.xy), float_of_float16(words.zw)};
  return {float_of_bfloat16(words.xy), float_of_bfloat16(words.zw)};
}

inline void store_8(device void* p, ulong block, uint type, Float8 x) {
  if (type == STORAGE_FLOAT32) {
    device float4* quads = (device float4*)p + 2 * block;
    quads[0] = x.low;
    quads[1] = x.high;
  } else if (type == STORAGE_FLOAT16) {
    ((device uint4*)p)[block] = uint4(float16_words(x.low), float16_words(x.high));
  } else {
    ((device uint4*)p)[block] = uint4(bfloat16_words(x.low), bfloat16_words(x.high));
  }
}

#endif
