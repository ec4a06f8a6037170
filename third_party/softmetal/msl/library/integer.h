// <metal_integer>: defined for every integer type and, component by component, for vectors.
#pragma once

#include "limits.h"
#include "vector.h"

namespace softmetal {

// The type twice as wide, for exact products and sums.
template <class T>
struct wide {
  using type = metal::conditional_t<metal::is_signed_v<T>, long, ulong>;
};
template <>
struct wide<long> {
  using type = __int128;
};
template <>
struct wide<ulong> {
  using type = unsigned __int128;
};
template <class T>
using wide_t = typename wide<T>::type;
template <class T>
using unsigned_t = metal::make_unsigned_t<T>;

namespace integer {

template <class T>
constexpr int bits() {
  return int(sizeof(T)) * 8;
}
template <class T>
constexpr T saturate(wide_t<T> value) {
  using limits = metal::numeric_limits<T>;
  return value < wide_t<T>(limits::min())   ? limits::min()
         : value > wide_t<T>(limits::max()) ? limits::max()
                                            : T(value);
}

template <class T>
constexpr T clz(T x) {
  return x ? T(__builtin_clzll(ulong(unsigned_t<T>(x))) - (64 - bits<T>())) : T(bits<T>());
}
template <class T>
constexpr T ctz(T x) {
  return x ? T(__builtin_ctzll(ulong(unsigned_t<T>(x)))) : T(bits<T>());
}
template <class T>
constexpr T popcount(T x) {
  return T(__builtin_popcountll(ulong(unsigned_t<T>(x))));
}
template <class T>
constexpr T reverse_bits(T x) {
  return T(__builtin_bitreverse64(ulong(unsigned_t<T>(x))) >> (64 - bits<T>()));
}
template <class T>
constexpr metal::enable_if_t<metal::is_signed_v<T>, T> abs(T x) {
  return x < 0 ? T(-unsigned_t<T>(x)) : x;
}
template <class T>
constexpr metal::enable_if_t<metal::is_unsigned_v<T>, T> abs(T x) {
  return x;
}
template <class T>
constexpr T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}
template <class T>
constexpr T mulhi(T a, T b) {
  return T((wide_t<T>(a) * b) >> bits<T>());
}
template <class T>
constexpr T addsat(T a, T b) {
  T r{};
  if (!__builtin_add_overflow(a, b, &r)) return r;
  return b < T(0) ? metal::numeric_limits<T>::min() : metal::numeric_limits<T>::max();
}
template <class T>
constexpr T subsat(T a, T b) {
  T r{};
  if (!__builtin_sub_overflow(a, b, &r)) return r;
  return a < b ? metal::numeric_limits<T>::min() : metal::numeric_limits<T>::max();
}
template <class T>
constexpr unsigned_t<T> absdiff(T a, T b) {
  return a < b ? unsigned_t<T>(unsigned_t<T>(b) - unsigned_t<T>(a))
               : unsigned_t<T>(unsigned_t<T>(a) - unsigned_t<T>(b));
}
template <class T>
constexpr T hadd(T a, T b) {
  return T((wide_t<T>(a) + b) >> 1);
}
template <class T>
constexpr T rhadd(T a, T b) {
  return T((wide_t<T>(a) + b + 1) >> 1);
}
template <class T>
constexpr T rotate(T x, T count) {
  unsigned_t<T> u = unsigned_t<T>(x);
  int n = int(unsigned_t<T>(count) & unsigned_t<T>(bits<T>() - 1));
  return n ? T(unsigned_t<T>(u << n) | unsigned_t<T>(u >> (bits<T>() - n))) : x;
}
template <class T>
constexpr T clamp(T x, T low, T high) {
  return min(max(x, low), high);
}
template <class T>
constexpr T madhi(T a, T b, T c) {
  return T(unsigned_t<T>(mulhi(a, b)) + unsigned_t<T>(c));
}
template <class T>
constexpr T madsat(T a, T b, T c) {
  return saturate<T>(wide_t<T>(a) * b + c);
}
template <class T>
constexpr T min3(T a, T b, T c) {
  return min(min(a, b), c);
}
template <class T>
constexpr T max3(T a, T b, T c) {
  return max(max(a, b), c);
}
template <class T>
constexpr T median3(T a, T b, T c) {
  return max(min(a, b), min(max(a, b), c));
}
// 24-bit operands: what lies above bit 23 is ignored.
template <class T>
constexpr T low24(T x) {
  return metal::is_signed_v<T> ? T(int(uint(x) << 8) >> 8) : T(uint(x) & 0xffffffu);
}
template <class T>
constexpr T mul24(T a, T b) {
  return T(uint(low24(a)) * uint(low24(b)));
}
template <class T>
constexpr T mad24(T a, T b, T c) {
  return T(uint(mul24(a, b)) + uint(c));
}

}  // namespace integer
}  // namespace softmetal

namespace metal {

#define SM_INTEGER1(name)                                              \
  template <class T, softmetal::integral_only<T> = true>               \
  constexpr T name(T x) {                                              \
    return softmetal::integer::name(x);                                \
  }                                                                    \
  template <class T, int N, softmetal::integral_only<T> = true>        \
  constexpr vec<T, N> name(vec<T, N> x) {                              \
    vec<T, N> r{};                                                     \
    for (int i = 0; i < N; ++i) r[i] = softmetal::integer::name(x[i]); \
    return r;                                                          \
  }
#define SM_INTEGER2(name)                                                    \
  template <class T, softmetal::integral_only<T> = true>                     \
  constexpr auto name(T x, T y) {                                            \
    return softmetal::integer::name(x, y);                                   \
  }                                                                          \
  template <class T, int N, softmetal::integral_only<T> = true>              \
  constexpr auto name(vec<T, N> x, vec<T, N> y) {                            \
    vec<decltype(softmetal::integer::name(x[0], y[0])), N> r{};              \
    for (int i = 0; i < N; ++i) r[i] = softmetal::integer::name(x[i], y[i]); \
    return r;                                                                \
  }
#define SM_INTEGER3(name)                                                          \
  template <class T, softmetal::integral_only<T> = true>                           \
  constexpr T name(T x, T y, T z) {                                                \
    return softmetal::integer::name(x, y, z);                                      \
  }                                                                                \
  template <class T, int N, softmetal::integral_only<T> = true>                    \
  constexpr vec<T, N> name(vec<T, N> x, vec<T, N> y, vec<T, N> z) {                \
    vec<T, N> r{};                                                                 \
    for (int i = 0; i < N; ++i) r[i] = softmetal::integer::name(x[i], y[i], z[i]); \
    return r;                                                                      \
  }
SM_INTEGER1(clz)
SM_INTEGER1(ctz)
SM_INTEGER1(popcount)
SM_INTEGER1(reverse_bits)
SM_INTEGER1(abs)
SM_INTEGER2(min)
SM_INTEGER2(max)
SM_INTEGER2(mulhi)
SM_INTEGER2(addsat)
SM_INTEGER2(subsat)
SM_INTEGER2(absdiff)
SM_INTEGER2(hadd)
SM_INTEGER2(rhadd)
SM_INTEGER2(rotate)
SM_INTEGER2(mul24)
SM_INTEGER3(clamp)
SM_INTEGER3(madhi)
SM_INTEGER3(madsat)
SM_INTEGER3(min3)
SM_INTEGER3(max3)
SM_INTEGER3(median3)
SM_INTEGER3(mad24)
#undef SM_INTEGER1
#undef SM_INTEGER2
#undef SM_INTEGER3

template <class T, int N, softmetal::integral_only<T> = true>
constexpr vec<T, N> min(vec<T, N> x, softmetal::identity_t<T> y) {
  return min(x, vec<T, N>(y));
}
template <class T, int N, softmetal::integral_only<T> = true>
constexpr vec<T, N> max(vec<T, N> x, softmetal::identity_t<T> y) {
  return max(x, vec<T, N>(y));
}
template <class T, int N, softmetal::integral_only<T> = true>
constexpr vec<T, N> clamp(vec<T, N> x, softmetal::identity_t<T> low,
                          softmetal::identity_t<T> high) {
  return clamp(x, vec<T, N>(low), vec<T, N>(high));
}

template <class T, softmetal::integral_only<T> = true>
constexpr T extract_bits(T x, uint offset, uint bits) {
  if (bits == 0) return T(0);
  uint unused = uint(sizeof(T)) * 8 - bits;
  return T(T(make_unsigned_t<T>(x) << (unused - offset)) >> unused);
}
template <class T, softmetal::integral_only<T> = true>
constexpr T insert_bits(T base, T insert, uint offset, uint bits) {
  using U = make_unsigned_t<T>;
  if (bits == 0) return base;
  U mask = U(U(U(~U(0)) >> (sizeof(T) * 8 - bits)) << offset);
  return T((U(base) & U(~mask)) | (U(U(insert) << offset) & mask));
}

}  // namespace metal
