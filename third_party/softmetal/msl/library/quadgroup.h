// <metal_quadgroup>: operations of four neighbouring lanes. They meet as a whole simdgroup.
#pragma once

#include "simdgroup.h"

namespace softmetal {

template <class Op, class T>
T quad_fold(Values<T> v) {
  uint begin = v.lane & ~3u;
  T r{};
  bool first = true;
  for (uint i = begin; i < begin + 4; ++i) {
    if (!v.is_active(i)) continue;
    r = first ? v.value[i] : Op::apply(r, v.value[i]);
    first = false;
  }
  return r;
}

// Bit i: lane i of this quad takes part and votes yes.
inline uint quad_votes(Values<uint> v) {
  uint votes = 0;
  for (uint i = 0; i < 4; ++i) {
    uint lane = (v.lane & ~3u) + i;
    if (v.is_active(lane) && v.value[lane]) votes |= 1u << i;
  }
  return votes;
}

}  // namespace softmetal

namespace metal {

#define SM_QUAD_REDUCTION(name, Op)                                          \
  template <class T>                                                         \
  inline T name(T x, softmetal::site where = SM_SITE) {                      \
    return softmetal::exchange(#name, where, x, [](softmetal::Values<T> v) { \
      return softmetal::quad_fold<softmetal::Op>(v);                         \
    });                                                                      \
  }
SM_QUAD_REDUCTION(quad_sum, op_sum)
SM_QUAD_REDUCTION(quad_product, op_product)
SM_QUAD_REDUCTION(quad_min, op_min)
SM_QUAD_REDUCTION(quad_max, op_max)
SM_QUAD_REDUCTION(quad_and, op_and)
SM_QUAD_REDUCTION(quad_or, op_or)
SM_QUAD_REDUCTION(quad_xor, op_xor)
#undef SM_QUAD_REDUCTION

// A lane reads lane `source` of its quad; `mine` is its own number there.
#define SM_QUAD_SHUFFLE(name, source)                                         \
  template <class T>                                                          \
  inline T name(T x, ushort n, softmetal::site where = SM_SITE) {             \
    return softmetal::exchange(#name, where, x, [n](softmetal::Values<T> v) { \
      uint mine = v.lane & 3;                                                 \
      (void)mine;                                                             \
      return v.value[(v.lane & ~3u) + (source) % 4];                          \
    });                                                                       \
  }
SM_QUAD_SHUFFLE(quad_broadcast, n)
SM_QUAD_SHUFFLE(quad_shuffle, n)
SM_QUAD_SHUFFLE(quad_shuffle_xor, mine ^ n)
SM_QUAD_SHUFFLE(quad_shuffle_down, mine + n < 4 ? mine + n : mine)
SM_QUAD_SHUFFLE(quad_shuffle_up, mine >= n ? mine - n : mine)
SM_QUAD_SHUFFLE(quad_shuffle_rotate_down, mine + n)
SM_QUAD_SHUFFLE(quad_shuffle_rotate_up, mine + 4 - n % 4)
#undef SM_QUAD_SHUFFLE

inline bool quad_any(bool vote, softmetal::site where = SM_SITE) {
  return softmetal::exchange("quad_any", where, uint(vote), softmetal::quad_votes) != 0;
}
inline bool quad_all(bool vote, softmetal::site where = SM_SITE) {
  return softmetal::exchange("quad_all", where, uint(!vote), softmetal::quad_votes) == 0;
}

}  // namespace metal
