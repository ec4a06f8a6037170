// Builtins of Apple's compiler that published kernels call by name (MLX's bf16_math.h). The last
// argument of most selects fast or precise math.
#pragma once

#include "math.h"
#include "simdgroup.h"

namespace metal {

#define SM_INTERNAL1(name)                    \
  inline float __metal_##name(float x, int) { \
    return softmetal::real::name(x);          \
  }
#define SM_INTERNAL2(name)                                 \
  inline float __metal_##name(float x, float y, int = 0) { \
    return softmetal::real::name(x, y);                    \
  }
#define SM_INTERNAL3(name)                                          \
  inline float __metal_##name(float x, float y, float z, int = 0) { \
    return softmetal::real::name(x, y, z);                          \
  }
SM_MATH1(SM_INTERNAL1)
SM_MATH2(SM_INTERNAL2)
SM_MATH3(SM_INTERNAL3)
inline float __metal_nextafter(float x, float y) {
  return nextafter(x, y);
}
inline float __metal_fma(float x, float y, float z) {
  return fma(x, y, z);
}
inline float __metal_frexp(float x, int* exponent) {
  return __builtin_frexpf(x, exponent);
}
inline float __metal_ldexp(float x, int k, int) {
  return ldexp(x, k);
}

#define SM_INTERNAL_SIMD(name)                                    \
  template <class T>                                              \
  inline T __metal_##name(T x, softmetal::site where = SM_SITE) { \
    return name(x, where);                                        \
  }
SM_INTERNAL_SIMD(simd_sum)
SM_INTERNAL_SIMD(simd_product)
SM_INTERNAL_SIMD(simd_max)
SM_INTERNAL_SIMD(simd_min)
SM_INTERNAL_SIMD(simd_xor)
SM_INTERNAL_SIMD(simd_prefix_exclusive_sum)
SM_INTERNAL_SIMD(simd_prefix_inclusive_sum)
SM_INTERNAL_SIMD(simd_prefix_exclusive_product)
SM_INTERNAL_SIMD(simd_prefix_inclusive_product)

inline float __metal_simd_xor(float x, softmetal::site where = SM_SITE) {
  return as_type<float>(simd_xor(as_type<uint>(x), where));
}

#define SM_INTERNAL_SHUFFLE(name)                                           \
  template <class T>                                                        \
  inline T __metal_##name(T x, ushort i, softmetal::site where = SM_SITE) { \
    return name(x, i, where);                                               \
  }
SM_INTERNAL_SHUFFLE(simd_broadcast)
SM_INTERNAL_SHUFFLE(simd_shuffle)
SM_INTERNAL_SHUFFLE(simd_shuffle_down)
SM_INTERNAL_SHUFFLE(simd_shuffle_up)
SM_INTERNAL_SHUFFLE(simd_shuffle_xor)
SM_INTERNAL_SHUFFLE(simd_shuffle_rotate_down)
SM_INTERNAL_SHUFFLE(simd_shuffle_rotate_up)

template <class T>
inline T __metal_simd_shuffle_and_fill_down(T x, T filling, ushort delta, ushort,
                                            softmetal::site where = SM_SITE) {
  return simd_shuffle_and_fill_down(x, filling, delta, SM_SIMD, where);
}
template <class T>
inline T __metal_simd_shuffle_and_fill_up(T x, T filling, ushort delta, ushort,
                                          softmetal::site where = SM_SITE) {
  return simd_shuffle_and_fill_up(x, filling, delta, SM_SIMD, where);
}
inline ushort __metal_get_simdgroup_size(ushort) {
  return SM_SIMD;
}

#undef SM_INTERNAL1
#undef SM_INTERNAL2
#undef SM_INTERNAL3
#undef SM_INTERNAL_SIMD
#undef SM_INTERNAL_SHUFFLE

}  // namespace metal
