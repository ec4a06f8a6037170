// Sums of squares that neither overflow nor vanish, and norms made from them, in the part of the
// language that C++ and Metal share: both compile this very text, so they round alike. The bounds
// are derived in docs/norms.md.
//
// Squares are summed at three scales (Blue, 1978), chosen for a block of elements, not for each:
// the block's plain sum of squares is needed anyway, and tells. What is infinite or NaN shows in
// the sums: nothing finite makes them so.
#pragma once

#include "float_pair.h"
#include "storage_types.h"

// A block whose sum of squares lies in [2^-80, 2^90] is taken as it is. Others are scaled before
// they are squared. No sum of up to 2^39 elements overflows, and what vanishes is 2^-43 of its
// block.
#define NORM_LEAST 8.271806e-25f    // 2^-80
#define NORM_MOST 1.2379401e+27f    // 2^90
#define NORM_SHRINK 2.5849394e-26f  // 2^-85
#define NORM_GROW 3.8685626e+25f    // 2^85

// NormPartial::scale: what the sum was multiplied by
#define NORM_PLAIN 0u
#define NORM_SHRUNK 1u  // 2^-170
#define NORM_GROWN 2u   // 2^170

struct NormSums {
  FloatPair plain;
  FloatPair shrunk;
  FloatPair grown;
};

// A sum of squares at one scale, or a largest magnitude (`high`, plain).
struct NormPartial {
  float high;
  float low;
  uint32_t scale;
  uint32_t non_finite;  // 1 or 0
};

MPS_DS_INLINE bool is_non_finite(float x) {
  return (MPS_DS_BITS(x) & 0x7f800000u) == 0x7f800000u;
}

MPS_DS_INLINE FloatPair norm_accumulate(FloatPair sum, float x) {
  FloatPair next = pair_sum(sum.high, x);
  return {next.high, sum.low + next.low};
}

// What is added at once: eight elements, or four and four zeros.
struct NormBlock {
  float x[8];
};

MPS_DS_INLINE float sum_of_squares(float a, float b, float c, float d) {
  return MPS_DS_FMA(b, b, a * a) + MPS_DS_FMA(d, d, c * c);
}

MPS_DS_INLINE float sum_of_squares(NormBlock block, float factor) {
  for (int i = 0; i < 8; ++i) block.x[i] *= factor;
  return sum_of_squares(block.x[0], block.x[1], block.x[2], block.x[3]) +
         sum_of_squares(block.x[4], block.x[5], block.x[6], block.x[7]);
}

// Adds a block whose plain sum of squares is out of range, 0, infinite or NaN.
MPS_DS_INLINE NormSums norm_add_scaled(NormSums sums, float plain, NormBlock block) {
  if (plain < NORM_LEAST) {
    sums.grown = norm_accumulate(sums.grown, sum_of_squares(block, NORM_GROW));
  } else {
    sums.shrunk = norm_accumulate(sums.shrunk, sum_of_squares(block, NORM_SHRINK));
  }
  return sums;
}

// Whether a block is added as it is. float16 elements have squares that are in range: no test.
MPS_DS_INLINE bool norm_is_plain(float plain, uint32_t type) {
  return type == STORAGE_FLOAT16 || (plain >= NORM_LEAST && plain <= NORM_MOST);
}

MPS_DS_INLINE NormSums norm_add(NormSums sums, NormBlock block, uint32_t type) {
  float plain = sum_of_squares(block.x[0], block.x[1], block.x[2], block.x[3]);
  if (type != STORAGE_FLOAT32)  // blocks of float32 have four elements
    plain += sum_of_squares(block.x[4], block.x[5], block.x[6], block.x[7]);
  if (norm_is_plain(plain, type)) {
    sums.plain = norm_accumulate(sums.plain, plain);
    return sums;
  }
  return norm_add_scaled(sums, plain, block);
}

MPS_DS_INLINE uint32_t larger(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}

// The largest magnitude, as bits: in this order infinity comes after all numbers, NaN after it.
MPS_DS_INLINE uint32_t magnitude_bits(NormBlock block) {
  uint32_t largest = 0;
  for (int i = 0; i < 8; ++i) largest = larger(largest, MPS_DS_BITS(block.x[i]) & 0x7fffffffu);
  return largest;
}

MPS_DS_INLINE NormSums norm_merge(NormSums a, NormSums b) {
  return {pair_add(a.plain, b.plain), pair_add(a.shrunk, b.shrunk), pair_add(a.grown, b.grown)};
}

MPS_DS_INLINE bool only_plain(NormSums sums) {
  return sums.shrunk.high == 0.0f && sums.grown.high == 0.0f;
}

MPS_DS_INLINE FloatPair times_twice(FloatPair x, float factor) {
  return {x.high * factor * factor, x.low * factor * factor};
}

// All sums as one, at the scale of the largest.
MPS_DS_INLINE NormPartial norm_partial(NormSums sums) {
  uint32_t non_finite = is_non_finite(sums.plain.high) || is_non_finite(sums.shrunk.high) ? 1u : 0u;
  FloatPair sum = sums.grown;
  uint32_t scale = NORM_GROWN;
  if (sums.shrunk.high != 0.0f) {
    sum = pair_add(sums.shrunk, times_twice(sums.plain, NORM_SHRINK));
    scale = NORM_SHRUNK;
  } else if (sums.plain.high != 0.0f) {
    sum = pair_add(sums.plain, times_twice(sums.grown, NORM_SHRINK));
    scale = NORM_PLAIN;
  }
  return {sum.high, sum.low, scale, non_finite};
}

MPS_DS_INLINE NormSums norm_add_partial(NormSums sums, NormPartial partial) {
  FloatPair sum = {partial.high, partial.low};
  if (partial.scale == NORM_PLAIN) sums.plain = pair_add(sums.plain, sum);
  if (partial.scale == NORM_SHRUNK) sums.shrunk = pair_add(sums.shrunk, sum);
  if (partial.scale == NORM_GROWN) sums.grown = pair_add(sums.grown, sum);
  return sums;
}

// x * 2^exponent, where |exponent| <= 250.
MPS_DS_INLINE float times_power_of_two(float x, int exponent) {
  int half_exponent = exponent / 2;
  float first = MPS_DS_FLOAT(uint32_t(half_exponent + 127) << 23);
  float second = MPS_DS_FLOAT(uint32_t(exponent - half_exponent + 127) << 23);
  return exponent == 0 ? x : x * first * second;
}

// (high + low) / |divisor| * 2^exponent, rounded once. What is between may leave the range of float
// where the result does not, so the divisor's exponent is kept apart.
MPS_DS_INLINE float norm_divide(FloatPair x, float divisor, int exponent) {
  uint32_t bits = MPS_DS_BITS(divisor) & 0x7fffffffu;
  float mantissa = MPS_DS_FLOAT(bits);
  if (bits >= 0x00800000u && bits < 0x7f800000u) {
    exponent -= int(bits >> 23) - 127;
    mantissa = MPS_DS_FLOAT((bits & 0x007fffffu) | 0x3f800000u);
  }
  float quotient = x.high / mantissa;
  float rest = MPS_DS_FMA(-quotient, mantissa, x.high) + x.low;
  return times_power_of_two(quotient + finite_or_zero(rest / mantissa), exponent);
}

// The norm of elements / divisor, from the sum of the elements' squares.
MPS_DS_INLINE float l2_norm(NormPartial sum, float divisor) {
  // A step of Newton's method gives the root's low part, whatever the last bit of sqrt is.
  float root = MPS_DS_SQRT(sum.high);
  float low = finite_or_zero((MPS_DS_FMA(-root, root, sum.high) + sum.low) / (root + root));
  int exponent = sum.scale == NORM_SHRUNK ? 85 : sum.scale == NORM_GROWN ? -85 : 0;
  return norm_divide({root, low}, divisor, exponent);
}

// The largest magnitude of elements / divisor. A divisor of 1 changes no bit.
MPS_DS_INLINE float inf_norm(float largest, float divisor) {
  return divisor == 1.0f ? largest : norm_divide({largest, 0.0f}, divisor, 0);
}

// What torch.nn.utils.clip_grad_norm_ multiplies gradients with: its order of operations.
MPS_DS_INLINE float clip_coefficient(float norm, float max_norm) {
  float coefficient = 1.0f / (norm + 1e-6f) * max_norm;
  return coefficient > 1.0f ? 1.0f : coefficient;  // NaN stays NaN
}
