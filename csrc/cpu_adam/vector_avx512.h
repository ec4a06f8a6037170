// Sixteen floats in AVX-512 (F, BW, DQ, VL); the interface is described in vector.h.
#pragma once

#include <immintrin.h>

#include "cpu_adam/storage.h"

namespace mps_ds::cpu_adam {
namespace {

struct Avx512Floats {
  static constexpr int64_t kWidth = 16;
  static constexpr int64_t kBlock = 64;
  static constexpr bool kPrefetch = true;
  __m512 v;

  Avx512Floats() = default;
  Avx512Floats(__m512 x) : v(x) {}
  explicit Avx512Floats(float x) : v(_mm512_set1_ps(x)) {}

  static Avx512Floats load(const float* from) { return _mm512_loadu_ps(from); }
  static Avx512Floats load(const Float16* from) { return _mm512_cvtph_ps(load_16(from)); }
  static Avx512Floats load(const BFloat16* from) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_16(from)), 16));
  }

  void store(float* to) const { _mm512_storeu_ps(to, v); }
  void store(Float16* to) const {
    store_16(to, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  // Not the instruction for it (AVX512_BF16), which flushes subnormals.
  void store(BFloat16* to) const {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i high = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    const __m512i bias = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, bias), 16);
    const __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i result = _mm512_mask_or_epi32(rounded, is_nan, high, _mm512_set1_epi32(0x0040));
    store_16(to, _mm512_cvtepi32_epi16(result));
  }

 private:
  static __m256i load_16(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
  }
  static void store_16(void* to, __m256i x) { _mm256_storeu_si256(static_cast<__m256i*>(to), x); }
};

inline Avx512Floats operator+(Avx512Floats a, Avx512Floats b) {
  return _mm512_add_ps(a.v, b.v);
}
inline Avx512Floats operator-(Avx512Floats a, Avx512Floats b) {
  return _mm512_sub_ps(a.v, b.v);
}
inline Avx512Floats operator*(Avx512Floats a, Avx512Floats b) {
  return _mm512_mul_ps(a.v, b.v);
}
inline Avx512Floats operator/(Avx512Floats a, Avx512Floats b) {
  return _mm512_div_ps(a.v, b.v);
}
inline Avx512Floats operator-(Avx512Floats a) {
  return _mm512_xor_ps(a.v, _mm512_set1_ps(-0.0f));
}

inline Avx512Floats value_fma(Avx512Floats a, Avx512Floats b, Avx512Floats c) {
  return _mm512_fmadd_ps(a.v, b.v, c.v);
}

inline Avx512Floats value_sqrt(Avx512Floats x) {
  return _mm512_sqrt_ps(x.v);
}

inline Avx512Floats value_where_less(Avx512Floats a, Avx512Floats b, Avx512Floats x,
                                     Avx512Floats y) {
  return _mm512_mask_mov_ps(y.v, _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), x.v);
}

// max and min give their second operand where one is NaN.
inline Avx512Floats value_max(Avx512Floats a, Avx512Floats b) {
  const __mmask16 a_is_nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
  return _mm512_mask_mov_ps(_mm512_max_ps(a.v, b.v), a_is_nan, a.v);
}

inline Avx512Floats value_clamp(Avx512Floats x, float bound) {
  return _mm512_min_ps(_mm512_set1_ps(bound), _mm512_max_ps(_mm512_set1_ps(-bound), x.v));
}

inline Avx512Floats finite_or_zero(Avx512Floats x) {
  const __m512 infinity = _mm512_set1_ps(__builtin_inff());
  const __mmask16 finite = _mm512_cmp_ps_mask(_mm512_abs_ps(x.v), infinity, _CMP_LT_OQ);
  return _mm512_maskz_mov_ps(finite, x.v);
}

}  // namespace
}  // namespace mps_ds::cpu_adam
