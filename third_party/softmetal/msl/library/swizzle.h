// Every swizzle of two, three and four components as a property with a getter and a setter. All are
// generated: `v.zyx` is a call to get_zyx(), `v.xy = w` to put_xy(w).
#pragma once

namespace softmetal {
enum swizzle_letter {
  letter_x = 0,
  letter_y = 1,
  letter_z = 2,
  letter_w = 3,
  letter_r = 0,
  letter_g = 1,
  letter_b = 2,
  letter_a = 3,
};
constexpr bool all_differ(int a, int b) {
  return a != b;
}
constexpr bool all_differ(int a, int b, int c) {
  return a != b && a != c && b != c;
}
constexpr bool all_differ(int a, int b, int c, int d) {
  return all_differ(a, b, c) && a != d && b != d && c != d;
}
}  // namespace softmetal

#define SM_AT(letter) softmetal_v[::softmetal::letter_##letter]
#define SM_LETTERS_DIFFER(...)                        \
  static_assert(::softmetal::all_differ(__VA_ARGS__), \
                "a swizzle that names a component twice cannot be assigned to")

#define SM_SWIZZLE1(a)                    \
  constexpr T softmetal_get_##a() const { \
    return SM_AT(a);                      \
  }                                       \
  constexpr void softmetal_put_##a(T v) { \
    SM_AT(a) = v;                         \
  }                                       \
  __declspec(property(get = softmetal_get_##a, put = softmetal_put_##a)) T a;

#define SM_SWIZZLE2(a, b)                                                                         \
  constexpr ::metal::vec<T, 2> softmetal_get_##a##b() const {                                     \
    return {SM_AT(a), SM_AT(b)};                                                                  \
  }                                                                                               \
  constexpr void softmetal_put_##a##b(::metal::vec<T, 2> v) {                                     \
    SM_LETTERS_DIFFER(::softmetal::letter_##a, ::softmetal::letter_##b);                          \
    SM_AT(a) = v.softmetal_v[0];                                                                  \
    SM_AT(b) = v.softmetal_v[1];                                                                  \
  }                                                                                               \
  __declspec(property(get = softmetal_get_##a##b, put = softmetal_put_##a##b)) ::metal::vec<T, 2> \
      a##b;

#define SM_SWIZZLE3(a, b, c)                                                                      \
  constexpr ::metal::vec<T, 3> softmetal_get_##a##b##c() const {                                  \
    return {SM_AT(a), SM_AT(b), SM_AT(c)};                                                        \
  }                                                                                               \
  constexpr void softmetal_put_##a##b##c(::metal::vec<T, 3> v) {                                  \
    SM_LETTERS_DIFFER(::softmetal::letter_##a, ::softmetal::letter_##b, ::softmetal::letter_##c); \
    SM_AT(a) = v.softmetal_v[0];                                                                  \
    SM_AT(b) = v.softmetal_v[1];                                                                  \
    SM_AT(c) = v.softmetal_v[2];                                                                  \
  }                                                                                               \
  __declspec(property(get = softmetal_get_##a##b##c,                                              \
                      put = softmetal_put_##a##b##c)) ::metal::vec<T, 3>                          \
      a##b##c;

#define SM_SWIZZLE4(a, b, c, d)                                                                  \
  constexpr ::metal::vec<T, 4> softmetal_get_##a##b##c##d() const {                              \
    return {SM_AT(a), SM_AT(b), SM_AT(c), SM_AT(d)};                                             \
  }                                                                                              \
  constexpr void softmetal_put_##a##b##c##d(::metal::vec<T, 4> v) {                              \
    SM_LETTERS_DIFFER(::softmetal::letter_##a, ::softmetal::letter_##b, ::softmetal::letter_##c, \
                      ::softmetal::letter_##d);                                                  \
    SM_AT(a) = v.softmetal_v[0];                                                                 \
    SM_AT(b) = v.softmetal_v[1];                                                                 \
    SM_AT(c) = v.softmetal_v[2];                                                                 \
    SM_AT(d) = v.softmetal_v[3];                                                                 \
  }                                                                                              \
  __declspec(property(get = softmetal_get_##a##b##c##d,                                          \
                      put = softmetal_put_##a##b##c##d)) ::metal::vec<T, 4>                      \
      a##b##c##d;

// All words of 1 to 4 letters over an alphabet of 2, 3 or 4. Sn_LETTERS appends one more letter.
#define SM_WORDS_2(p, q) \
  SM_SWIZZLE1(p)         \
  SM_SWIZZLE1(q)         \
  SM_W2_2(p, p, q)       \
  SM_W2_2(q, p, q)       \
  SM_W3_2(p, p, p, q)    \
  SM_W3_2(p, q, p, q) SM_W3_2(q, p, p, q) SM_W3_2(q, q, p, q) SM_W4A_2(p, p, q) SM_W4A_2(q, p, q)
#define SM_W2_2(a, p, q) SM_SWIZZLE2(a, p) SM_SWIZZLE2(a, q)
#define SM_W3_2(a, b, p, q) SM_SWIZZLE3(a, b, p) SM_SWIZZLE3(a, b, q)
#define SM_W4_2(a, b, c, p, q) SM_SWIZZLE4(a, b, c, p) SM_SWIZZLE4(a, b, c, q)
#define SM_W4B_2(a, b, p, q) SM_W4_2(a, b, p, p, q) SM_W4_2(a, b, q, p, q)
#define SM_W4A_2(a, p, q) SM_W4B_2(a, p, p, q) SM_W4B_2(a, q, p, q)

#define SM_WORDS_3(p, q, r) \
  SM_SWIZZLE1(p)            \
  SM_SWIZZLE1(q)            \
  SM_SWIZZLE1(r)            \
  SM_W2_3(p, p, q, r)       \
  SM_W2_3(q, p, q, r)       \
  SM_W2_3(r, p, q, r)       \
  SM_W3A_3(p, p, q, r)      \
  SM_W3A_3(q, p, q, r)      \
  SM_W3A_3(r, p, q, r) SM_W4A_3(p, p, q, r) SM_W4A_3(q, p, q, r) SM_W4A_3(r, p, q, r)
#define SM_W2_3(a, p, q, r) SM_SWIZZLE2(a, p) SM_SWIZZLE2(a, q) SM_SWIZZLE2(a, r)
#define SM_W3_3(a, b, p, q, r) SM_SWIZZLE3(a, b, p) SM_SWIZZLE3(a, b, q) SM_SWIZZLE3(a, b, r)
#define SM_W3A_3(a, p, q, r) SM_W3_3(a, p, p, q, r) SM_W3_3(a, q, p, q, r) SM_W3_3(a, r, p, q, r)
#define SM_W4_3(a, b, c, p, q, r) \
  SM_SWIZZLE4(a, b, c, p) SM_SWIZZLE4(a, b, c, q) SM_SWIZZLE4(a, b, c, r)
#define SM_W4B_3(a, b, p, q, r) \
  SM_W4_3(a, b, p, p, q, r) SM_W4_3(a, b, q, p, q, r) SM_W4_3(a, b, r, p, q, r)
#define SM_W4A_3(a, p, q, r) SM_W4B_3(a, p, p, q, r) SM_W4B_3(a, q, p, q, r) SM_W4B_3(a, r, p, q, r)

#define SM_WORDS_4(p, q, r, s) \
  SM_SWIZZLE1(p)               \
  SM_SWIZZLE1(q)               \
  SM_SWIZZLE1(r)               \
  SM_SWIZZLE1(s)               \
  SM_W2_4(p, p, q, r, s)       \
  SM_W2_4(q, p, q, r, s)       \
  SM_W2_4(r, p, q, r, s)       \
  SM_W2_4(s, p, q, r, s)       \
  SM_W3A_4(p, p, q, r, s)      \
  SM_W3A_4(q, p, q, r, s)      \
  SM_W3A_4(r, p, q, r, s)      \
  SM_W3A_4(s, p, q, r, s)      \
  SM_W4A_4(p, p, q, r, s) SM_W4A_4(q, p, q, r, s) SM_W4A_4(r, p, q, r, s) SM_W4A_4(s, p, q, r, s)
#define SM_W2_4(a, p, q, r, s) \
  SM_SWIZZLE2(a, p) SM_SWIZZLE2(a, q) SM_SWIZZLE2(a, r) SM_SWIZZLE2(a, s)
#define SM_W3_4(a, b, p, q, r, s) \
  SM_SWIZZLE3(a, b, p) SM_SWIZZLE3(a, b, q) SM_SWIZZLE3(a, b, r) SM_SWIZZLE3(a, b, s)
#define SM_W3A_4(a, p, q, r, s) \
  SM_W3_4(a, p, p, q, r, s)     \
  SM_W3_4(a, q, p, q, r, s) SM_W3_4(a, r, p, q, r, s) SM_W3_4(a, s, p, q, r, s)
#define SM_W4_4(a, b, c, p, q, r, s) \
  SM_SWIZZLE4(a, b, c, p) SM_SWIZZLE4(a, b, c, q) SM_SWIZZLE4(a, b, c, r) SM_SWIZZLE4(a, b, c, s)
#define SM_W4B_4(a, b, p, q, r, s) \
  SM_W4_4(a, b, p, p, q, r, s)     \
  SM_W4_4(a, b, q, p, q, r, s) SM_W4_4(a, b, r, p, q, r, s) SM_W4_4(a, b, s, p, q, r, s)
#define SM_W4A_4(a, p, q, r, s) \
  SM_W4B_4(a, p, p, q, r, s)    \
  SM_W4B_4(a, q, p, q, r, s) SM_W4B_4(a, r, p, q, r, s) SM_W4B_4(a, s, p, q, r, s)

#define SM_SWIZZLES_OF_2 SM_WORDS_2(x, y) SM_WORDS_2(r, g)
#define SM_SWIZZLES_OF_3 SM_WORDS_3(x, y, z) SM_WORDS_3(r, g, b)
#define SM_SWIZZLES_OF_4 SM_WORDS_4(x, y, z, w) SM_WORDS_4(r, g, b, a)
