// <metal_math> and <metal_common>: floating-point functions in metal::, metal::precise:: and
// metal::fast::. All three compute alike: in float, within 1 ulp unless noted, whatever the
// hardware may do faster and worse. half is computed in float and rounded once; bfloat converts to
// float. Nothing here is ever contracted: a fused multiply-add is what is written as fma().
#pragma once

#include "math_float.h"
#include "vector_ops.h"

// Functions of one, two and three floats, by name.
// clang-format off: it moves the lists anew each time
#define SM_MATH1(X) \
  X(acos) X(acosh) X(asin) X(asinh) X(atan) X(atanh) X(ceil) X(cos) X(cosh) X(cospi) \
  X(exp) X(exp2) X(exp10) X(fabs) X(abs) X(floor) X(fract) X(log) X(log2) X(log10) \
  X(rint) X(round) X(rsqrt) X(sign) X(sin) X(sinh) X(sinpi) X(sqrt) X(tan) X(tanh) \
  X(tanpi) X(trunc) X(saturate)
#define SM_MATH2(X) \
  X(atan2) X(copysign) X(divide) X(fdim) X(fmax) X(fmin) X(fmod) X(max) X(min) X(pow) \
  X(powr) X(step)
// clang-format on
#define SM_MATH3(X) \
  X(clamp) X(fmax3) X(fmin3) X(fmedian3) X(max3) X(min3) X(median3) X(mix) X(smoothstep)

#define SM_DEFINE1(name)                                                                 \
  inline float name(float x) {                                                           \
    return softmetal::real::name(x);                                                     \
  }                                                                                      \
  inline half name(half x) {                                                             \
    return half(softmetal::real::name(float(x)));                                        \
  }                                                                                      \
  template <class T, int N, softmetal::real_only<T> = true>                              \
  inline vec<T, N> name(vec<T, N> x) {                                                   \
    return softmetal::map<T>([](T a) { return T(softmetal::real::name(float(a))); }, x); \
  }
#define SM_DEFINE2(name)                                                              \
  inline float name(float x, float y) {                                               \
    return softmetal::real::name(x, y);                                               \
  }                                                                                   \
  inline half name(half x, half y) {                                                  \
    return half(softmetal::real::name(float(x), float(y)));                           \
  }                                                                                   \
  template <class T, int N, softmetal::real_only<T> = true>                           \
  inline vec<T, N> name(vec<T, N> x, vec<T, N> y) {                                   \
    return softmetal::map<T>(                                                         \
        [](T a, T b) { return T(softmetal::real::name(float(a), float(b))); }, x, y); \
  }
#define SM_DEFINE3(name)                                                                         \
  inline float name(float x, float y, float z) {                                                 \
    return softmetal::real::name(x, y, z);                                                       \
  }                                                                                              \
  inline half name(half x, half y, half z) {                                                     \
    return half(softmetal::real::name(float(x), float(y), float(z)));                            \
  }                                                                                              \
  template <class T, int N, softmetal::real_only<T> = true>                                      \
  inline vec<T, N> name(vec<T, N> x, vec<T, N> y, vec<T, N> z) {                                 \
    return softmetal::map<T>(                                                                    \
        [](T a, T b, T c) { return T(softmetal::real::name(float(a), float(b), float(c))); }, x, \
        y, z);                                                                                   \
  }

// The rest: other argument types, or not computed in float.
#define SM_DEFINE_OTHERS                                                       \
  inline float fma(float a, float b, float c) {                                \
    return __builtin_fmaf(a, b, c);                                            \
  }                                                                            \
  inline half fma(half a, half b, half c) {                                    \
    return softmetal::real::fma_half(a, b, c);                                 \
  }                                                                            \
  template <class T, int N, softmetal::real_only<T> = true>                    \
  inline vec<T, N> fma(vec<T, N> a, vec<T, N> b, vec<T, N> c) {                \
    vec<T, N> r{};                                                             \
    for (int i = 0; i < N; ++i) r[i] = fma(a[i], b[i], c[i]);                  \
    return r;                                                                  \
  }                                                                            \
  inline float nextafter(float x, float y) {                                   \
    return softmetal::real::nextafter<uint>(x, y);                             \
  }                                                                            \
  inline half nextafter(half x, half y) {                                      \
    return softmetal::real::nextafter<ushort>(x, y);                           \
  }                                                                            \
  inline float ldexp(float x, int k) {                                         \
    return __builtin_ldexpf(x, k);                                             \
  }                                                                            \
  inline half ldexp(half x, int k) {                                           \
    return half(__builtin_ldexpf(float(x), k));                                \
  }                                                                            \
  inline float frexp(float x, int& exponent) {                                 \
    return __builtin_frexpf(x, &exponent);                                     \
  }                                                                            \
  inline half frexp(half x, int& exponent) {                                   \
    return half(__builtin_frexpf(float(x), &exponent));                        \
  }                                                                            \
  inline int ilogb(float x) {                                                  \
    return softmetal::real::ilogb(x);                                          \
  }                                                                            \
  inline int ilogb(half x) {                                                   \
    return softmetal::real::ilogb(float(x));                                   \
  }                                                                            \
  inline float modf(float x, float& whole) {                                   \
    return __builtin_modff(x, &whole);                                         \
  }                                                                            \
  inline half modf(half x, half& whole) {                                      \
    whole = half(__builtin_truncf(float(x)));                                  \
    return softmetal::real::fraction(x, whole);                                \
  }                                                                            \
  inline float sincos(float x, float& cosine) {                                \
    cosine = softmetal::real::cos(x);                                          \
    return softmetal::real::sin(x);                                            \
  }                                                                            \
  inline half sincos(half x, half& cosine) {                                   \
    cosine = half(softmetal::real::cos(float(x)));                             \
    return half(softmetal::real::sin(float(x)));                               \
  }                                                                            \
  template <class T, int N, softmetal::real_only<T> = true>                    \
  inline vec<T, N> max(vec<T, N> x, softmetal::identity_t<T> y) {              \
    return max(x, vec<T, N>(y));                                               \
  }                                                                            \
  template <class T, int N, softmetal::real_only<T> = true>                    \
  inline vec<T, N> min(vec<T, N> x, softmetal::identity_t<T> y) {              \
    return min(x, vec<T, N>(y));                                               \
  }                                                                            \
  template <class T, int N, softmetal::real_only<T> = true>                    \
  inline vec<T, N> clamp(vec<T, N> x, softmetal::identity_t<T> low,            \
                         softmetal::identity_t<T> high) {                      \
    return clamp(x, vec<T, N>(low), vec<T, N>(high));                          \
  }                                                                            \
  template <class T, int N, softmetal::real_only<T> = true>                    \
  inline vec<T, N> mix(vec<T, N> x, vec<T, N> y, softmetal::identity_t<T> t) { \
    return mix(x, y, vec<T, N>(t));                                            \
  }

#define SM_MATH_FUNCTIONS \
  SM_MATH1(SM_DEFINE1) SM_MATH2(SM_DEFINE2) SM_MATH3(SM_DEFINE3) SM_DEFINE_OTHERS

namespace metal {
SM_MATH_FUNCTIONS
namespace precise {
SM_MATH_FUNCTIONS
}
namespace fast {
SM_MATH_FUNCTIONS
}
}  // namespace metal
