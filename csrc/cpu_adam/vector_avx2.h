// Eight floats in AVX2; the interface is described in vector.h.
#pragma once

#include <immintrin.h>

#include "cpu_adam/storage.h"

namespace mps_ds::cpu_adam {
namespace {

struct Avx2Floats {
  static constexpr int64_t kWidth = 8;
  static constexpr int64_t kBlock = 64;
  static constexpr bool kPrefetch = true;
  __m256 v;

  Avx2Floats() = default;
  Avx2Floats(__m256 x) : v(x) {}
  explicit Avx2Floats(float x) : v(_mm256_set1_ps(x)) {}

  static Avx2Floats load(const float* from) { return _mm256_loadu_ps(from); }
  static Avx2Floats load(const Float16* from) { return _mm256_cvtph_ps(load_16(from)); }
  static Avx2Floats load(const BFloat16* from) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_16(from)), 16));
  }

  void store(float* to) const { _mm256_storeu_ps(to, v); }
  void store(Float16* to) const {
    store_16(to, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  void store(BFloat16* to) const {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i high = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    const __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, bias), 16);
    const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x0040));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i result = _mm256_blendv_epi8(rounded, quiet, is_nan);
    const __m256i packed = _mm256_packus_epi32(result, result);  // within halves of 128 bits
    store_16(to, _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08)));
  }

 private:
  static __m128i load_16(const void* from) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
  }
  static void store_16(void* to, __m128i x) { _mm_storeu_si128(static_cast<__m128i*>(to), x); }
};

inline Avx2Floats operator+(Avx2Floats a, Avx2Floats b) {
  return _mm256_add_ps(a.v, b.v);
}
inline Avx2Floats operator-(Avx2Floats a, Avx2Floats b) {
  return _mm256_sub_ps(a.v, b.v);
}
inline Avx2Floats operator*(Avx2Floats a, Avx2Floats b) {
  return _mm256_mul_ps(a.v, b.v);
}
inline Avx2Floats operator/(Avx2Floats a, Avx2Floats b) {
  return _mm256_div_ps(a.v, b.v);
}
inline Avx2Floats operator-(Avx2Floats a) {
  return _mm256_xor_ps(a.v, _mm256_set1_ps(-0.0f));
}

inline Avx2Floats value_fma(Avx2Floats a, Avx2Floats b, Avx2Floats c) {
  return _mm256_fmadd_ps(a.v, b.v, c.v);
}

inline Avx2Floats value_sqrt(Avx2Floats x) {
  return _mm256_sqrt_ps(x.v);
}

inline Avx2Floats value_where_less(Avx2Floats a, Avx2Floats b, Avx2Floats x, Avx2Floats y) {
  return _mm256_blendv_ps(y.v, x.v, _mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ));
}

// max and min give their second operand where one is NaN.
inline Avx2Floats value_max(Avx2Floats a, Avx2Floats b) {
  const __m256 a_is_nan = _mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q);
  return _mm256_blendv_ps(_mm256_max_ps(a.v, b.v), a.v, a_is_nan);
}

inline Avx2Floats value_clamp(Avx2Floats x, float bound) {
  return _mm256_min_ps(_mm256_set1_ps(bound), _mm256_max_ps(_mm256_set1_ps(-bound), x.v));
}

inline Avx2Floats finite_or_zero(Avx2Floats x) {
  const __m256 magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x.v);
  const __m256 infinity = _mm256_set1_ps(__builtin_inff());
  return _mm256_and_ps(x.v, _mm256_cmp_ps(magnitude, infinity, _CMP_LT_OQ));
}

}  // namespace
}  // namespace mps_ds::cpu_adam
