// Operators of vectors, component by component. A scalar operand converts to the component type.
#pragma once

#include "vector.h"

namespace softmetal {

// The shift count is taken modulo the width of the type, as MSL defines it.
template <class T>
constexpr T shift_left(T a, T count) {
  return T(metal::make_unsigned_t<T>(a) << (count & T(sizeof(T) * 8 - 1)));
}
template <class T>
constexpr T shift_right(T a, T count) {
  return T(a >> (count & T(sizeof(T) * 8 - 1)));
}

// `a op= b` as an expression without an lvalue, for components of vectors (../../mslc/swizzles.py).
#define SM_ASSIGNED(name, op)         \
  template <class T, class U>         \
  constexpr T name(T a, const U& b) { \
    a op b;                           \
    return a;                         \
  }
SM_ASSIGNED(added, +=)
SM_ASSIGNED(subtracted, -=)
SM_ASSIGNED(multiplied, *=)
SM_ASSIGNED(divided, /=)
SM_ASSIGNED(remaindered, %=)
SM_ASSIGNED(masked, &=)
SM_ASSIGNED(joined, |=)
SM_ASSIGNED(toggled, ^=)
SM_ASSIGNED(shifted_left, <<=)
SM_ASSIGNED(shifted_right, >>=)
#undef SM_ASSIGNED

}  // namespace softmetal

namespace metal {

#define SM_BINARY(op, Result, expression)                                         \
  template <class T, int N>                                                       \
  constexpr vec<Result, N> operator op(vec<T, N> a, vec<T, N> b) {                \
    vec<Result, N> r{};                                                           \
    for (int i = 0; i < N; ++i) {                                                 \
      T p = a.softmetal_v[i], q = b.softmetal_v[i];                               \
      r.softmetal_v[i] = Result(expression);                                      \
    }                                                                             \
    return r;                                                                     \
  }                                                                               \
  template <class T, int N>                                                       \
  constexpr vec<Result, N> operator op(vec<T, N> a, softmetal::identity_t<T> b) { \
    return a op vec<T, N>(b);                                                     \
  }                                                                               \
  template <class T, int N>                                                       \
  constexpr vec<Result, N> operator op(softmetal::identity_t<T> a, vec<T, N> b) { \
    return vec<T, N>(a) op b;                                                     \
  }
#define SM_ARITHMETIC(op, expression)                                                        \
  SM_BINARY(op, T, expression)                                                               \
  template <class T, int N>                                                                  \
  constexpr vec<T, N>& operator op## = (vec<T, N> & a, softmetal::identity_t<vec<T, N>> b) { \
    return a = a op b;                                                                       \
  }
SM_ARITHMETIC(+, p + q)
SM_ARITHMETIC(-, p - q)
SM_ARITHMETIC(*, p* q)
SM_ARITHMETIC(/, p / q)
SM_ARITHMETIC(%, p % q)
SM_ARITHMETIC(&, p& q)
SM_ARITHMETIC(|, p | q)
SM_ARITHMETIC(^, p ^ q)
SM_ARITHMETIC(<<, softmetal::shift_left(p, q))
SM_ARITHMETIC(>>, softmetal::shift_right(p, q))
#undef SM_ARITHMETIC
SM_BINARY(<, bool, p < q)
SM_BINARY(>, bool, p > q)
SM_BINARY(<=, bool, p <= q)
SM_BINARY(>=, bool, p >= q)
SM_BINARY(==, bool, p == q)
SM_BINARY(!=, bool, p != q)
SM_BINARY(&&, bool, p&& q)
SM_BINARY(||, bool, p || q)
#undef SM_BINARY

#define SM_UNARY(op, Result)                                                    \
  template <class T, int N>                                                     \
  constexpr vec<Result, N> operator op(vec<T, N> a) {                           \
    vec<Result, N> r{};                                                         \
    for (int i = 0; i < N; ++i) r.softmetal_v[i] = Result(op a.softmetal_v[i]); \
    return r;                                                                   \
  }
SM_UNARY(+, T)
SM_UNARY(-, T)
SM_UNARY(~, T)
SM_UNARY(!, bool)
#undef SM_UNARY

template <class T, int N>
constexpr vec<T, N>& operator++(vec<T, N>& a) {
  return a += T(1);
}
template <class T, int N>
constexpr vec<T, N>& operator--(vec<T, N>& a) {
  return a -= T(1);
}
template <class T, int N>
constexpr vec<T, N> operator++(vec<T, N>& a, int) {
  vec<T, N> before = a;
  a += T(1);
  return before;
}
template <class T, int N>
constexpr vec<T, N> operator--(vec<T, N>& a, int) {
  vec<T, N> before = a;
  a -= T(1);
  return before;
}

}  // namespace metal

namespace softmetal {

// f applied to each component.
template <class R, class F, class T, int N>
constexpr metal::vec<R, N> map(F f, metal::vec<T, N> a) {
  metal::vec<R, N> r{};
  for (int i = 0; i < N; ++i) r.softmetal_v[i] = f(a.softmetal_v[i]);
  return r;
}
template <class R, class F, class T, class U, int N>
constexpr metal::vec<R, N> map(F f, metal::vec<T, N> a, metal::vec<U, N> b) {
  metal::vec<R, N> r{};
  for (int i = 0; i < N; ++i) r.softmetal_v[i] = f(a.softmetal_v[i], b.softmetal_v[i]);
  return r;
}
template <class R, class F, class T, class U, class V, int N>
constexpr metal::vec<R, N> map(F f, metal::vec<T, N> a, metal::vec<U, N> b, metal::vec<V, N> c) {
  metal::vec<R, N> r{};
  for (int i = 0; i < N; ++i) {
    r.softmetal_v[i] = f(a.softmetal_v[i], b.softmetal_v[i], c.softmetal_v[i]);
  }
  return r;
}

}  // namespace softmetal
