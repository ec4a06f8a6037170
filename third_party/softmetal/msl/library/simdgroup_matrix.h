// <metal_simdgroup_matrix>: matrices of 8 by 8 elements that a simdgroup holds together. Each lane
// has two neighbours of one row; which ones, published kernels rely on. All lanes must take part.
#pragma once

#include "simdgroup.h"

namespace softmetal {

struct matrix_place {
  uint row, column;  // of a lane's first element
};
constexpr matrix_place place_in_matrix(uint lane) {
  return {(lane >> 2 & 4) | (lane >> 1 & 3), (lane >> 1 & 4) | (lane << 1 & 2)};
}
constexpr uint lane_in_matrix(uint row, uint column) {
  return (row & 4) << 2 | (column & 4) << 1 | (row & 3) << 1 | (column >> 1 & 1);
}

// What a lane brings to a product: two elements of each factor.
struct matrix_factors {
  float a[2], b[2];
};

inline void require_simdgroup(const char* name, site where, uint active) {
  if (active == ~0u) return;
  fail(*current_group,
       Message() << name << " at " << where << " was reached by "
                 << uint(__builtin_popcount(active))
                 << " lanes of a simdgroup: it is undefined unless all 32 take part");
}

// Element (row, column + i) of a b + c for this lane, where `sum` holds those of c: fused in float,
// in the order of the factors' elements. (MSL leaves both open.)
inline void multiply_matrices(const char* name, site where, const matrix_factors& mine,
                              float (&sum)[2]) {
  const matrix_factors* unused;
  Values<matrix_factors> lanes =
      meet<matrix_factors, nothing_in_common>(name, where, mine, &unused);
  require_simdgroup(name, where, lanes.active);
  matrix_place at = place_in_matrix(lanes.lane);
  for (uint i = 0; i < 2; ++i) {
    for (uint k = 0; k < 8; ++k) {
      float a = lanes.value[lane_in_matrix(at.row, k)].a[k & 1];
      float b = lanes.value[lane_in_matrix(k, at.column + i)].b[i];
      sum[i] = __builtin_fmaf(a, b, sum[i]);
    }
  }
}

// The lane's place, once all lanes are there.
inline matrix_place meet_at_matrix(const char* name, site where) {
  const uint* unused;
  Values<uint> lanes = meet<uint, nothing_in_common>(name, where, 0u, &unused);
  require_simdgroup(name, where, lanes.active);
  return place_in_matrix(lanes.lane);
}

}  // namespace softmetal

namespace metal {

template <class T, int Cols, int Rows = Cols>
struct simdgroup_matrix {
  static_assert(Cols == 8 && Rows == 8, "a simdgroup_matrix has 8 by 8 elements");
  static_assert(is_floating_point_v<T>, "a simdgroup_matrix is of half, float or bfloat");
  using storage_type = vec<T, 2>;

  simdgroup_matrix() = default;
  // T on the diagonal, 0 elsewhere.
  explicit simdgroup_matrix(T diagonal) {
    softmetal::matrix_place at = softmetal::place_in_matrix(softmetal::current_lane());
    for (uint i = 0; i < 2; ++i) {
      softmetal_v[i] = at.row == at.column + i ? diagonal : T(0.0f);
    }
  }
  storage_type& thread_elements() { return softmetal_v; }
  const storage_type& thread_elements() const { return softmetal_v; }

  storage_type softmetal_v;
};
using simdgroup_half8x8 = simdgroup_matrix<half, 8, 8>;
using simdgroup_bfloat8x8 = simdgroup_matrix<bfloat, 8, 8>;
using simdgroup_float8x8 = simdgroup_matrix<float, 8, 8>;

template <class T, int Cols, int Rows = Cols>
inline simdgroup_matrix<T, Cols, Rows> make_filled_simdgroup_matrix(T value) {
  simdgroup_matrix<T, Cols, Rows> result;
  result.softmetal_v = vec<T, 2>(value);
  return result;
}

// Element (row, column) is at (origin.y + row) * elements_per_row + origin.x + column; transposed,
// row and column change places.
template <class T>
inline void simdgroup_load(simdgroup_matrix<T, 8, 8>& to, const T* from, ulong elements_per_row = 8,
                           ulong2 origin = 0, bool transpose = false,
                           softmetal::site where = SM_SITE) {
  softmetal::matrix_place at = softmetal::meet_at_matrix("simdgroup_load", where);
  from += origin.y * elements_per_row + origin.x;
  for (uint i = 0; i < 2; ++i) {
    uint column = at.column + i;
    to.softmetal_v[i] = transpose ? from[column * elements_per_row + at.row]
                                  : from[at.row * elements_per_row + column];
  }
}
template <class T>
inline void simdgroup_store(simdgroup_matrix<T, 8, 8> from, T* to, ulong elements_per_row = 8,
                            ulong2 origin = 0, bool transpose = false,
                            softmetal::site where = SM_SITE) {
  softmetal::matrix_place at = softmetal::meet_at_matrix("simdgroup_store", where);
  to += origin.y * elements_per_row + origin.x;
  for (uint i = 0; i < 2; ++i) {
    uint column = at.column + i;
    ulong place =
        transpose ? column * elements_per_row + at.row : at.row * elements_per_row + column;
    to[place] = from.softmetal_v[i];
  }
}

// d = a b + c; the sum is rounded once to the type of d.
template <class D, class A, class B, class C>
inline void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a,
                                          simdgroup_matrix<B, 8, 8> b, simdgroup_matrix<C, 8, 8> c,
                                          softmetal::site where = SM_SITE) {
  float sum[2] = {float(c.softmetal_v[0]), float(c.softmetal_v[1])};
  softmetal::multiply_matrices("simdgroup_multiply_accumulate", where,
                               {{float(a.softmetal_v[0]), float(a.softmetal_v[1])},
                                {float(b.softmetal_v[0]), float(b.softmetal_v[1])}},
                               sum);
  d.softmetal_v = vec<D, 2>(D(sum[0]), D(sum[1]));
}
template <class D, class A, class B>
inline void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a,
                               simdgroup_matrix<B, 8, 8> b, softmetal::site where = SM_SITE) {
  simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<float, 8>(0.0f), where);
}
template <class T>
inline simdgroup_matrix<T, 8, 8> operator*(simdgroup_matrix<T, 8, 8> a,
                                           simdgroup_matrix<T, 8, 8> b) {
  simdgroup_matrix<T, 8, 8> result;
  simdgroup_multiply(result, a, b);
  return result;
}

}  // namespace metal
