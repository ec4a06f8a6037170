// packed_float3 and its kind: vectors with the size and alignment of their components.
#pragma once

#include "vector_ops.h"

namespace metal {

template <class T, int N>
struct packed_vec;

#define SM_PACKED(N, SWIZZLES)                                                       \
  template <class T>                                                                 \
  struct packed_vec<T, N> {                                                          \
    T softmetal_v[N];                                                                \
                                                                                     \
    packed_vec() = default;                                                          \
    constexpr packed_vec(T value) : packed_vec(vec<T, N>(value)) {}                  \
    constexpr packed_vec(vec<T, N> v) : softmetal_v{} {                              \
      for (int i = 0; i < N; ++i) softmetal_v[i] = v.softmetal_v[i];                 \
    }                                                                                \
    template <class A, class B, class... Rest,                                       \
              enable_if_t<softmetal::total<A, B, Rest...>::count == N, bool> = true> \
    constexpr packed_vec(A a, B b, Rest... rest) : softmetal_v{} {                   \
      softmetal::fill(softmetal_v, a, b, rest...);                                   \
    }                                                                                \
    constexpr operator vec<T, N>() const {                                           \
      vec<T, N> r{};                                                                 \
      for (int i = 0; i < N; ++i) r.softmetal_v[i] = softmetal_v[i];                 \
      return r;                                                                      \
    }                                                                                \
    constexpr T& operator[](size_t i) { return softmetal_v[i]; }                     \
    constexpr const T& operator[](size_t i) const { return softmetal_v[i]; }         \
    SWIZZLES                                                                         \
  };
SM_PACKED(2, SM_SWIZZLES_OF_2)
SM_PACKED(3, SM_SWIZZLES_OF_3)
SM_PACKED(4, SM_SWIZZLES_OF_4)
#undef SM_PACKED

#define SM_PACKED_TYPES(T)                \
  using packed_##T##2 = packed_vec<T, 2>; \
  using packed_##T##3 = packed_vec<T, 3>; \
  using packed_##T##4 = packed_vec<T, 4>;
SM_PACKED_TYPES(char)
SM_PACKED_TYPES(uchar)
SM_PACKED_TYPES(short)
SM_PACKED_TYPES(ushort)
SM_PACKED_TYPES(int)
SM_PACKED_TYPES(uint)
SM_PACKED_TYPES(long)
SM_PACKED_TYPES(ulong)
SM_PACKED_TYPES(half)
SM_PACKED_TYPES(bfloat)
SM_PACKED_TYPES(float)
#undef SM_PACKED_TYPES

// Arithmetic works on the unpacked vectors: packed op packed, packed op vector, packed op scalar.
#define SM_PACKED_ARITHMETIC(op)                                                    \
  template <class T, int N>                                                         \
  constexpr vec<T, N> operator op(packed_vec<T, N> a, packed_vec<T, N> b) {         \
    return vec<T, N>(a) op vec<T, N>(b);                                            \
  }                                                                                 \
  template <class T, int N>                                                         \
  constexpr vec<T, N> operator op(packed_vec<T, N> a, vec<T, N> b) {                \
    return vec<T, N>(a) op b;                                                       \
  }                                                                                 \
  template <class T, int N>                                                         \
  constexpr vec<T, N> operator op(vec<T, N> a, packed_vec<T, N> b) {                \
    return a op vec<T, N>(b);                                                       \
  }                                                                                 \
  template <class T, int N>                                                         \
  constexpr vec<T, N> operator op(packed_vec<T, N> a, softmetal::identity_t<T> b) { \
    return vec<T, N>(a) op b;                                                       \
  }                                                                                 \
  template <class T, int N>                                                         \
  constexpr vec<T, N> operator op(softmetal::identity_t<T> a, packed_vec<T, N> b) { \
    return a op vec<T, N>(b);                                                       \
  }                                                                                 \
  template <class T, int N>                                                         \
  constexpr packed_vec<T, N>& operator op## =                                       \
      (packed_vec<T, N> & a, softmetal::identity_t<vec<T, N>> b) {                  \
    return a = vec<T, N>(a) op b;                                                   \
  }
SM_PACKED_ARITHMETIC(+)
SM_PACKED_ARITHMETIC(-)
SM_PACKED_ARITHMETIC(*)
SM_PACKED_ARITHMETIC(/)
#undef SM_PACKED_ARITHMETIC

template <class T, int N>
constexpr vec<T, N> operator-(packed_vec<T, N> a) {
  return -vec<T, N>(a);
}

}  // namespace metal
