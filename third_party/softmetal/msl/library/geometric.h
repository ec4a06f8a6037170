// <metal_geometric>
#pragma once

#include "relational.h"

namespace metal {

template <class T, int N, softmetal_float_only<T> = true>
constexpr T dot(vec<T, N> a, vec<T, N> b) {
  T r = a[0] * b[0];
  for (int i = 1; i < N; ++i) r = T(r + a[i] * b[i]);
  return r;
}
template <class T, int N, softmetal_float_only<T> = true>
inline T length_squared(vec<T, N> a) {
  return dot(a, a);
}
template <class T, int N, softmetal_float_only<T> = true>
inline T length(vec<T, N> a) {
  return T(__builtin_sqrtf(float(dot(a, a))));
}
template <class T, int N, softmetal_float_only<T> = true>
inline T distance(vec<T, N> a, vec<T, N> b) {
  return length(a - b);
}
template <class T, int N, softmetal_float_only<T> = true>
inline T distance_squared(vec<T, N> a, vec<T, N> b) {
  return dot(a - b, a - b);
}
template <class T, int N, softmetal_float_only<T> = true>
inline vec<T, N> normalize(vec<T, N> a) {
  return a / length(a);
}
template <class T, softmetal_float_only<T> = true>
inline vec<T, 3> cross(vec<T, 3> a, vec<T, 3> b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

}  // namespace metal
