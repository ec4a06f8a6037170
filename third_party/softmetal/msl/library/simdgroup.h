// <metal_simdgroup>: operations of 32 lanes. Results that MSL leaves undefined (an inactive or
// non-existing source lane) are poison.
#pragma once

#include "../runtime/simd.h"
#include "barrier.h"
#include "integer.h"
#include "math.h"

namespace softmetal {

// x[0] op x[1] op ... over the active lanes, in the order of the lanes. (MSL leaves the order
// open.)
template <class Op>
struct fold {
  template <class T>
  static void compute(Values<T> v, T* result) {
    bool first = true;
    for (uint i = 0; i < SM_SIMD; ++i) {
      if (!v.is_active(i)) continue;
      *result = first ? v.value[i] : Op::apply(*result, v.value[i]);
      first = false;
    }
  }
};

#define SM_OPERATOR(name, expression) \
  struct name {                       \
    template <class T>                \
    static T apply(T a, T b) {        \
      return T(expression);           \
    }                                 \
  };
SM_OPERATOR(op_sum, a + b)
SM_OPERATOR(op_product, a* b)
SM_OPERATOR(op_min, metal::min(a, b))
SM_OPERATOR(op_max, metal::max(a, b))
SM_OPERATOR(op_and, a& b)
SM_OPERATOR(op_or, a | b)
SM_OPERATOR(op_xor, a ^ b)
#undef SM_OPERATOR

// Lanes for which the value is not zero.
struct ballot {
  static void compute(Values<uint> v, uint* result) {
    *result = 0;
    for (uint i = 0; i < SM_SIMD; ++i) {
      if (v.is_active(i) && v.value[i]) *result |= 1u << i;
    }
  }
};
struct active_lanes {
  static void compute(Values<uint> v, uint* result) { *result = v.active; }
};

// The flags that all lanes at a barrier give.
struct simdgroup_barrier {
  static void compute(Values<uint> v, uint* result) {
    *result = ~0u;
    for (uint i = 0; i < SM_SIMD; ++i) {
      if (v.is_active(i)) *result &= v.value[i];
    }
    trace_simdgroup_barrier(v.simdgroup, v.active, *result);
  }
};

// The lanes before this one (and itself if inclusive) combined; nothing gives `start`.
template <class Op, class T>
T prefix(Values<T> v, T start, bool inclusive) {
  T r = start;
  for (uint i = 0; i < v.lane + inclusive; ++i) {
    if (v.is_active(i)) r = Op::apply(r, v.value[i]);
  }
  return r;
}

inline uint current_lane() {
  return current_group->current % SM_SIMD;
}

}  // namespace softmetal

namespace metal {

#define SM_REDUCTION(name, Op)                                                 \
  template <class T>                                                           \
  inline T name(T x, softmetal::site where = SM_SITE) {                        \
    return softmetal::reduce<softmetal::fold<softmetal::Op>>(#name, where, x); \
  }
SM_REDUCTION(simd_sum, op_sum)
SM_REDUCTION(simd_product, op_product)
SM_REDUCTION(simd_min, op_min)
SM_REDUCTION(simd_max, op_max)
SM_REDUCTION(simd_and, op_and)
SM_REDUCTION(simd_or, op_or)
SM_REDUCTION(simd_xor, op_xor)
#undef SM_REDUCTION

#define SM_PREFIX(name, Op, start, inclusive)                                \
  template <class T>                                                         \
  inline T name(T x, softmetal::site where = SM_SITE) {                      \
    return softmetal::exchange(#name, where, x, [](softmetal::Values<T> v) { \
      return softmetal::prefix<softmetal::Op>(v, T(start), inclusive);       \
    });                                                                      \
  }
SM_PREFIX(simd_prefix_exclusive_sum, op_sum, 0, false)
SM_PREFIX(simd_prefix_inclusive_sum, op_sum, 0, true)
SM_PREFIX(simd_prefix_exclusive_product, op_product, 1, false)
SM_PREFIX(simd_prefix_inclusive_product, op_product, 1, true)
#undef SM_PREFIX

// A lane reads the value of lane `source`; v.lane is its own.
#define SM_SHUFFLE(name, source)                                                               \
  template <class T>                                                                           \
  inline T name(T x, ushort n, softmetal::site where = SM_SITE) {                              \
    return softmetal::exchange(                                                                \
        #name, where, x, [n](softmetal::Values<T> v) { return v.value[(source) % SM_SIMD]; }); \
  }
SM_SHUFFLE(simd_broadcast, n)
SM_SHUFFLE(simd_shuffle, n)
SM_SHUFFLE(simd_shuffle_xor, v.lane ^ n)
SM_SHUFFLE(simd_shuffle_rotate_down, v.lane + n)
SM_SHUFFLE(simd_shuffle_rotate_up, v.lane + SM_SIMD - n % SM_SIMD)
// Lanes that would read beyond the simdgroup keep their own value.
SM_SHUFFLE(simd_shuffle_down, v.lane + n < SM_SIMD ? v.lane + n : v.lane)
SM_SHUFFLE(simd_shuffle_up, v.lane >= n ? v.lane - n : v.lane)
#undef SM_SHUFFLE

// Within groups of `modulo` lanes, what lies beyond is taken from `filling`.
template <class T>
inline T simd_shuffle_and_fill_down(T x, softmetal::identity_t<T> filling, ushort delta,
                                    ushort modulo = SM_SIMD, softmetal::site where = SM_SITE) {
  T fill_value = filling;
  return softmetal::exchange("simd_shuffle_and_fill_down", where, x, [=](softmetal::Values<T> v) {
    uint begin = v.lane / modulo * modulo, at = v.lane % modulo + delta;
    return at < modulo ? v.value[begin + at] : fill_value;
  });
}
template <class T>
inline T simd_shuffle_and_fill_up(T x, softmetal::identity_t<T> filling, ushort delta,
                                  ushort modulo = SM_SIMD, softmetal::site where = SM_SITE) {
  T fill_value = filling;
  return softmetal::exchange("simd_shuffle_and_fill_up", where, x, [=](softmetal::Values<T> v) {
    return v.lane % modulo >= delta ? v.value[v.lane - delta] : fill_value;
  });
}

template <class T>
inline T simd_broadcast_first(T x, softmetal::site where = SM_SITE) {
  return softmetal::exchange("simd_broadcast_first", where, x, [](softmetal::Values<T> v) {
    return v.value[__builtin_ctz(v.active)];
  });
}

// Which lanes voted yes.
class simd_vote {
 public:
  using vote_t = ulong;
  constexpr explicit simd_vote(vote_t votes = 0) : softmetal_votes(votes) {}
  constexpr explicit operator vote_t() const { return softmetal_votes; }
  constexpr bool any() const { return softmetal_votes != 0; }
  constexpr bool all() const { return uint(softmetal_votes) == ~0u; }

 private:
  vote_t softmetal_votes;
};

inline simd_vote simd_ballot(bool vote, softmetal::site where = SM_SITE) {
  return simd_vote(softmetal::reduce<softmetal::ballot>("simd_ballot", where, uint(vote)));
}
inline bool simd_any(bool vote, softmetal::site where = SM_SITE) {
  return softmetal::reduce<softmetal::ballot>("simd_any", where, uint(vote)) != 0;
}
inline bool simd_all(bool vote, softmetal::site where = SM_SITE) {
  return softmetal::reduce<softmetal::ballot>("simd_all", where, uint(!vote)) == 0;
}
inline simd_vote simd_active_threads_mask(softmetal::site where = SM_SITE) {
  return simd_vote(
      softmetal::reduce<softmetal::active_lanes>("simd_active_threads_mask", where, 1u));
}
inline bool simd_is_first(softmetal::site where = SM_SITE) {
  uint active = softmetal::reduce<softmetal::active_lanes>("simd_is_first", where, 1u);
  return softmetal::current_lane() == uint(__builtin_ctz(active));
}
inline void simdgroup_barrier(mem_flags flags, softmetal::site where = SM_SITE) {
  softmetal::reduce<softmetal::simdgroup_barrier>("simdgroup_barrier", where, uint(flags));
}

}  // namespace metal
