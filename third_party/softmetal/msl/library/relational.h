// <metal_relational>. The tests look at the value: unlike Metal's fast math, nothing folds them
// away.
#pragma once

#include "limits.h"
#include "vector_ops.h"

namespace softmetal {
// On the bits, so that flushed subnormals do not matter either.
constexpr uint magnitude(float x) {
  return __builtin_bit_cast(uint, x) & 0x7fffffffu;
}
namespace relational {
constexpr bool isnan(float x) {
  return magnitude(x) > 0x7f800000u;
}
constexpr bool isinf(float x) {
  return magnitude(x) == 0x7f800000u;
}
constexpr bool isfinite(float x) {
  return magnitude(x) < 0x7f800000u;
}
constexpr bool signbit(float x) {
  return __builtin_bit_cast(uint, x) >> 31;
}
// Normal in the type's own range.
template <class T>
constexpr bool isnormal(T x) {
  return isfinite(float(x)) &&
         magnitude(float(x)) >= magnitude(float(metal::numeric_limits<T>::min()));
}
}  // namespace relational
}  // namespace softmetal

namespace metal {

template <class T>
using softmetal_float_only = enable_if_t<is_floating_point_v<T>, bool>;

#define SM_CLASSIFY(name)                                                 \
  template <class T, softmetal_float_only<T> = true>                      \
  constexpr bool name(T x) {                                              \
    return softmetal::relational::name(x);                                \
  }                                                                       \
  template <class T, int N, softmetal_float_only<T> = true>               \
  constexpr vec<bool, N> name(vec<T, N> x) {                              \
    vec<bool, N> r{};                                                     \
    for (int i = 0; i < N; ++i) r[i] = softmetal::relational::name(x[i]); \
    return r;                                                             \
  }
SM_CLASSIFY(isnan)
SM_CLASSIFY(isinf)
SM_CLASSIFY(isfinite)
SM_CLASSIFY(isnormal)
SM_CLASSIFY(signbit)
#undef SM_CLASSIFY

template <class T, softmetal_float_only<T> = true>
constexpr bool isordered(T x, T y) {
  return !isnan(x) && !isnan(y);
}
template <class T, softmetal_float_only<T> = true>
constexpr bool isunordered(T x, T y) {
  return isnan(x) || isnan(y);
}
template <class T, int N, softmetal_float_only<T> = true>
constexpr vec<bool, N> isordered(vec<T, N> x, vec<T, N> y) {
  return !isnan(x) && !isnan(y);
}
template <class T, int N, softmetal_float_only<T> = true>
constexpr vec<bool, N> isunordered(vec<T, N> x, vec<T, N> y) {
  return isnan(x) || isnan(y);
}

constexpr bool any(bool x) {
  return x;
}
constexpr bool all(bool x) {
  return x;
}
template <int N>
constexpr bool any(vec<bool, N> x) {
  bool r = false;
  for (int i = 0; i < N; ++i) r |= x[i];
  return r;
}
template <int N>
constexpr bool all(vec<bool, N> x) {
  bool r = true;
  for (int i = 0; i < N; ++i) r &= x[i];
  return r;
}

// select(a, b, c) is c ? b : a.
template <class T>
constexpr enable_if_t<is_arithmetic_v<T>, T> select(T a, softmetal::identity_t<T> b, bool c) {
  return c ? b : a;
}
template <class T, int N>
constexpr vec<T, N> select(vec<T, N> a, softmetal::identity_t<vec<T, N>> b, vec<bool, N> c) {
  vec<T, N> r{};
  for (int i = 0; i < N; ++i) r[i] = c[i] ? b[i] : a[i];
  return r;
}

}  // namespace metal
