// One float, for processors without any of the others; the interface is described in vector.h.
#pragma once

#include "cpu_adam/storage.h"
#include "mps/kernels/adam_plain.h"

namespace mps_ds::cpu_adam {
namespace {

struct ScalarFloat {
  static constexpr int64_t kWidth = 1;
  static constexpr int64_t kBlock = 1;
  static constexpr bool kPrefetch = false;
  float v;

  ScalarFloat() = default;
  explicit ScalarFloat(float x) : v(x) {}

  template <class T>
  static ScalarFloat load(const T* from) {
    return ScalarFloat(to_float(*from));
  }
  template <class T>
  void store(T* to) const {
    *to = from_float<T>(v);
  }
};

inline ScalarFloat operator+(ScalarFloat a, ScalarFloat b) {
  return ScalarFloat(a.v + b.v);
}
inline ScalarFloat operator-(ScalarFloat a, ScalarFloat b) {
  return ScalarFloat(a.v - b.v);
}
inline ScalarFloat operator*(ScalarFloat a, ScalarFloat b) {
  return ScalarFloat(a.v * b.v);
}
inline ScalarFloat operator/(ScalarFloat a, ScalarFloat b) {
  return ScalarFloat(a.v / b.v);
}
inline ScalarFloat operator-(ScalarFloat a) {
  return ScalarFloat(-a.v);
}

inline ScalarFloat value_fma(ScalarFloat a, ScalarFloat b, ScalarFloat c) {
  return ScalarFloat(::value_fma(a.v, b.v, c.v));
}
inline ScalarFloat value_sqrt(ScalarFloat x) {
  return ScalarFloat(::value_sqrt(x.v));
}
inline ScalarFloat value_where_less(ScalarFloat a, ScalarFloat b, ScalarFloat x, ScalarFloat y) {
  return ScalarFloat(::value_where_less(a.v, b.v, x.v, y.v));
}
inline ScalarFloat value_max(ScalarFloat a, ScalarFloat b) {
  return ScalarFloat(::value_max(a.v, b.v));
}
inline ScalarFloat value_clamp(ScalarFloat x, float bound) {
  return ScalarFloat(::value_clamp(x.v, bound));
}
inline ScalarFloat finite_or_zero(ScalarFloat x) {
  return ScalarFloat(::finite_or_zero(x.v));
}

}  // namespace
}  // namespace mps_ds::cpu_adam
