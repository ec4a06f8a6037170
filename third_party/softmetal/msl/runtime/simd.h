// Operations of a simdgroup: all its active lanes bring a value, the last one to arrive computes
// what they have in common, then each takes its own result.
#pragma once

#include "scheduler.h"

namespace softmetal {

// Lane values of the operation in flight, and which lanes take part.
template <class T>
struct Values {
  const T* value;
  uint active, lane, simdgroup;
  bool is_active(uint i) const { return active >> i & 1; }
};

// MSL has no simdgroup operation on 64-bit and bfloat components.
template <class T>
struct simd_operand {
  static constexpr bool ok =
      metal::is_arithmetic_v<T> && sizeof(T) <= 4 && !metal::is_same_v<T, bfloat>;
};
template <class T, int N>
struct simd_operand<metal::vec<T, N>> : simd_operand<T> {};

// Common: what is computed once, `static void compute(Values<T>, T* result)`.
template <class T, class Common>
static void complete(Simdgroup& s) {
  const T* values = (const T*)s.value[s.parity];
  uint index = uint(&s - current_group->simdgroup);
  Common::compute(Values<T>{values, s.active[s.parity], 0, index}, (T*)s.result[s.parity]);
}

struct nothing_in_common {
  template <class T>
  static void compute(Values<T>, T*) {}
};

__attribute__((noinline)) static void fail_divergent(Group& g, const Simdgroup& s, const char* name,
                                                     site where) {
  fail(g, Message() << "lanes of one simdgroup wait at different simdgroup operations, " << s.name
                    << " at " << s.where << " and " << name << " at " << where
                    << ": the software device cannot tell which comes first; move one out of the "
                       "divergent code");
}

// Puts the current lane's value into the operation; returns when all active lanes have.
template <class T, class Common>
__attribute__((convergent)) Values<T> meet(const char* name, site where, T value,
                                           const T** result) {
  Group& g = *current_group;
  uint me = g.current, index = me / SM_SIMD, lane = me % SM_SIMD;
  Simdgroup& s = g.simdgroup[index];
  uint parity = s.parity;
  ++g.simd_operations;
  if (!s.arrived) {
    s.name = name;
    s.where = where;
    s.complete = complete<T, Common>;
    s.active[parity] = 0;
    memset(s.value[parity], g.poison, sizeof s.value[parity]);  // inactive lanes: undefined
  } else if (s.complete != (void (*)(Simdgroup&))complete<T, Common> || !(s.where == where)) {
    fail_divergent(g, s, name, where);
  }
  T* values = (T*)s.value[parity];
  values[lane] = value;
  s.active[parity] |= 1u << lane;
  g.lane[me].state = at_simd_operation;
  if (++s.arrived == s.alive) {
    complete_simdgroup(g, index);
    g.lane[me].state = running;
  } else {
    leave(g, &g.lane[me].stack_pointer);
  }
  *result = (const T*)s.result[parity];
  return Values<T>{values, s.active[parity], lane, index};
}

// An operation with one result for all lanes.
template <class Common, class T>
T reduce(const char* name, site where, T value) {
  static_assert(simd_operand<T>::ok,
                "simdgroup operations take scalars and vectors of 8, 16 and 32 bits, not bfloat");
  const T* result;
  meet<T, Common>(name, where, value, &result);
  return *result;
}

// An operation in which each lane picks from the others' values: pick(Values<T>).
template <class T, class Pick>
T exchange(const char* name, site where, T value, Pick pick) {
  static_assert(simd_operand<T>::ok,
                "simdgroup operations take scalars and vectors of 8, 16 and 32 bits, not bfloat");
  const T* unused;
  return pick(meet<T, nothing_in_common>(name, where, value, &unused));
}

}  // namespace softmetal
