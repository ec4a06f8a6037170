// Eight floats in two NEON registers, so that 16-bit values fill one; the interface is described in
// vector.h. Needs no more than ARMv8-A: conversions to bfloat16 are done on bits, because the M1
// has no instruction for them.
#pragma once

#include <arm_neon.h>

#include "cpu_adam/storage.h"

namespace mps_ds::cpu_adam {
namespace {

struct NeonFloats {
  static constexpr int64_t kWidth = 8;
  static constexpr int64_t kBlock = 16;
  static constexpr bool kPrefetch = false;
  float32x4_t a;
  float32x4_t b;

  NeonFloats() = default;
  NeonFloats(float32x4_t low, float32x4_t high) : a(low), b(high) {}
  explicit NeonFloats(float x) : a(vdupq_n_f32(x)), b(a) {}

  static NeonFloats load(const float* from) { return {vld1q_f32(from), vld1q_f32(from + 4)}; }
  static NeonFloats load(const Float16* from) {
    const float16x8_t x = vreinterpretq_f16_u16(vld1q_u16(&from->bits));
    return {vcvt_f32_f16(vget_low_f16(x)), vcvt_high_f32_f16(x)};
  }
  static NeonFloats load(const BFloat16* from) {
    const uint16x8_t x = vld1q_u16(&from->bits);
    return {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(x), 16)),
            vreinterpretq_f32_u32(vshll_high_n_u16(x, 16))};
  }

  void store(float* to) const {
    vst1q_f32(to, a);
    vst1q_f32(to + 4, b);
  }
  void store(Float16* to) const {
    vst1q_u16(&to->bits, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(a), b)));
  }
  // On the upper and lower halves of all eight at once.
  void store(BFloat16* to) const {
    const uint16x8_t a_bits = vreinterpretq_u16_f32(a);
    const uint16x8_t b_bits = vreinterpretq_u16_f32(b);
    const uint16x8_t high = vuzp2q_u16(a_bits, b_bits);
    const uint16x8_t low = vuzp1q_u16(a_bits, b_bits);
    // Up where the lower half is more than 0x8000, or just that and the upper one odd.
    const uint16x8_t odd = vandq_u16(high, vdupq_n_u16(1));
    const uint16x8_t up = vcgtq_u16(vorrq_u16(low, odd), vdupq_n_u16(0x8000));
    const uint16x8_t rounded = vsubq_u16(high, up);  // `up` is -1
    const uint16x8_t quiet = vorrq_u16(high, vdupq_n_u16(0x0040));
    const uint16x8_t no_nan =
        vuzp1q_u16(vreinterpretq_u16_u32(vceqq_f32(a, a)), vreinterpretq_u16_u32(vceqq_f32(b, b)));
    vst1q_u16(&to->bits, vbslq_u16(no_nan, rounded, quiet));
  }
};

inline NeonFloats operator+(NeonFloats x, NeonFloats y) {
  return {vaddq_f32(x.a, y.a), vaddq_f32(x.b, y.b)};
}
inline NeonFloats operator-(NeonFloats x, NeonFloats y) {
  return {vsubq_f32(x.a, y.a), vsubq_f32(x.b, y.b)};
}
inline NeonFloats operator*(NeonFloats x, NeonFloats y) {
  return {vmulq_f32(x.a, y.a), vmulq_f32(x.b, y.b)};
}
inline NeonFloats operator/(NeonFloats x, NeonFloats y) {
  return {vdivq_f32(x.a, y.a), vdivq_f32(x.b, y.b)};
}
inline NeonFloats operator-(NeonFloats x) {
  return {vnegq_f32(x.a), vnegq_f32(x.b)};
}

inline NeonFloats value_fma(NeonFloats x, NeonFloats y, NeonFloats z) {
  return {vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b)};
}

inline NeonFloats value_sqrt(NeonFloats x) {
  return {vsqrtq_f32(x.a), vsqrtq_f32(x.b)};
}

inline NeonFloats value_where_less(NeonFloats a, NeonFloats b, NeonFloats x, NeonFloats y) {
  return {vbslq_f32(vcltq_f32(a.a, b.a), x.a, y.a), vbslq_f32(vcltq_f32(a.b, b.b), x.b, y.b)};
}

// NaN where either is, both here and in value_clamp.
inline NeonFloats value_max(NeonFloats x, NeonFloats y) {
  return {vmaxq_f32(x.a, y.a), vmaxq_f32(x.b, y.b)};
}

inline NeonFloats value_clamp(NeonFloats x, float bound) {
  const float32x4_t high = vdupq_n_f32(bound);
  const float32x4_t low = vdupq_n_f32(-bound);
  return {vminq_f32(vmaxq_f32(x.a, low), high), vminq_f32(vmaxq_f32(x.b, low), high)};
}

inline float32x4_t finite_or_zero(float32x4_t x) {
  const uint32x4_t finite = vcltq_f32(vabsq_f32(x), vdupq_n_f32(__builtin_inff()));
  return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), finite));
}

inline NeonFloats finite_or_zero(NeonFloats x) {
  return {finite_or_zero(x.a), finite_or_zero(x.b)};
}

}  // namespace
}  // namespace mps_ds::cpu_adam
