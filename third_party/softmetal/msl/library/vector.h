// vec<T, N>: an array of components with MSL's constructors, and every swizzle as a property (not
// storage), so that components and swizzles are no lvalues one could take the address of, as in
// MSL.
#pragma once

#include "bfloat.h"
#include "swizzle.h"

namespace metal {
template <class T, int N>
struct vec;
}

namespace softmetal {

// How many components an argument of a vector constructor gives.
template <class T>
struct components {
  static constexpr int count = 1;
  static constexpr T get(const T& value, int) { return value; }
};
template <class T, int N>
struct components<metal::vec<T, N>> {
  static constexpr int count = N;
  static constexpr T get(const metal::vec<T, N>& value, int i) { return value.softmetal_v[i]; }
};
template <class...>
struct total;
template <>
struct total<> {
  static constexpr int count = 0;
};
template <class A, class... Rest>
struct total<A, Rest...> {
  static constexpr int count = components<A>::count + total<Rest...>::count;
};

template <class T>
constexpr void fill(T*) {}
template <class T, class A, class... Rest>
constexpr void fill(T* to, const A& first, const Rest&... rest) {
  for (int i = 0; i < components<A>::count; ++i) {
    to[i] = static_cast<T>(components<A>::get(first, i));
  }
  fill(to + components<A>::count, rest...);
}

template <int bytes>
struct word;
template <>
struct word<1> {
  using type = uchar;
};
template <>
struct word<2> {
  using type = ushort;
};
template <>
struct word<4> {
  using type = uint;
};
template <>
struct word<8> {
  using type = ulong;
};

// A tracing build copies vectors of two and four as one value, as the hardware does, not component
// by component.
template <class T, int N>
constexpr void copy_components(T (&to)[N], const T (&from)[N]) {
#ifdef SM_TRACING
  if (N != 3 && !__builtin_is_constant_evaluated()) {
    typedef typename word<sizeof(T)>::type whole __attribute__((ext_vector_type(N)));
    *(whole*)to = *(const whole*)from;
    return;
  }
#endif
  for (int i = 0; i < N; ++i) to[i] = from[i];
}

}  // namespace softmetal

namespace metal {

// A vector of three takes the room of four. Copies are written out, not trivial, because of
// `*(device float4*)p` with a misaligned p: the compiler checks the alignment of an object
// (-fsanitize=alignment) only where a function or member of it is used.
#define SM_VECTOR(N, room, SWIZZLES)                                                             \
  template <class T>                                                                             \
  struct alignas(sizeof(T) * room) vec<T, N> {                                                   \
    T softmetal_v[N];                                                                            \
                                                                                                 \
    vec() = default;                                                                             \
    constexpr vec(const vec& other) : softmetal_v{} {                                            \
      softmetal::copy_components(softmetal_v, other.softmetal_v);                                \
    }                                                                                            \
    constexpr vec& operator=(const vec& other) {                                                 \
      softmetal::copy_components(softmetal_v, other.softmetal_v);                                \
      return *this;                                                                              \
    }                                                                                            \
    constexpr vec(T value) : softmetal_v{} {                                                     \
      for (int i = 0; i < N; ++i) softmetal_v[i] = value;                                        \
    }                                                                                            \
    template <class A, class B, class... Rest,                                                   \
              enable_if_t<softmetal::total<A, B, Rest...>::count == N, bool> = true>             \
    constexpr vec(A a, B b, Rest... rest) : softmetal_v{} {                                      \
      softmetal::fill(softmetal_v, a, b, rest...);                                               \
    }                                                                                            \
    template <class U>                                                                           \
    constexpr explicit vec(vec<U, N> other) : softmetal_v{} {                                    \
      for (int i = 0; i < N; ++i) softmetal_v[i] = T(other.softmetal_v[i]);                      \
    }                                                                                            \
    constexpr T& operator[](size_t i) { return softmetal::element(softmetal_v, i); }             \
    constexpr const T& operator[](size_t i) const { return softmetal::element(softmetal_v, i); } \
    SWIZZLES                                                                                     \
  };
SM_VECTOR(2, 2, SM_SWIZZLES_OF_2)
SM_VECTOR(3, 4, SM_SWIZZLES_OF_3)
SM_VECTOR(4, 4, SM_SWIZZLES_OF_4)
#undef SM_VECTOR

// What MSL names: float2, ..., with metal:: and without (global_names.h).
#define SM_VECTOR_TYPES(T) \
  using T##2 = vec<T, 2>;  \
  using T##3 = vec<T, 3>;  \
  using T##4 = vec<T, 4>;
SM_VECTOR_TYPES(bool)
SM_VECTOR_TYPES(char)
SM_VECTOR_TYPES(uchar)
SM_VECTOR_TYPES(short)
SM_VECTOR_TYPES(ushort)
SM_VECTOR_TYPES(int)
SM_VECTOR_TYPES(uint)
SM_VECTOR_TYPES(long)
SM_VECTOR_TYPES(ulong)
SM_VECTOR_TYPES(half)
SM_VECTOR_TYPES(bfloat)
SM_VECTOR_TYPES(float)
#undef SM_VECTOR_TYPES

template <class T>
constexpr bool is_vector_v = false;
template <class T, int N>
constexpr bool is_vector_v<vec<T, N>> = true;
template <class T>
struct is_vector : bool_constant<is_vector_v<T>> {};

template <class T>
struct vec_elements {
  static constexpr int value = softmetal::components<T>::count;
};

template <class T, int N>
constexpr vec<T, N> make_vec(T value) {
  return vec<T, N>(value);
}

}  // namespace metal
