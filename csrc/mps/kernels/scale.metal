// out = a * x or out = a * x + b * y over lists of tensors in one dispatch, noting whether what was
// read is infinite or NaN. A threadgroup takes one chunk of one row.
#include <metal_stdlib>

// Before our headers: it holds for what follows it.
#pragma clang fp contract(off)

#include "scale_tables.h"
#include "storage.h"

using namespace metal;

// STORAGE_*, or SCALE_ANY_TYPE for all three.
constant uint x_type [[function_constant(0)]];
constant uint y_type [[function_constant(1)]];
constant uint out_type [[function_constant(2)]];
constant uint any_layout [[function_constant(3)]];  // 0: all rows are ROW_WIDE
constant uint has_y [[function_constant(4)]];
constant uint checks_x [[function_constant(5)]];
constant uint checks_y [[function_constant(6)]];
constant uint in_place [[function_constant(7)]];  // x is out: with a = 1, nothing is written

struct ScaleTypes {
  uint x;
  uint y;
  uint out;
};

struct ScaleWork {
  TensorRow<SCALE_OPERANDS> row;
  ScaleTypes types;
  float a;
  float b;
  bool writes;
};

// Where one element of each operand is.
struct ScalePlace {
  ulong x;
  ulong y;
  ulong out;
};

inline ScaleTypes types_of(TensorRow<SCALE_OPERANDS> row) {
  if (x_type != SCALE_ANY_TYPE) return {x_type, y_type, out_type};
  const uint mask = (1u << ROW_TYPE_BITS) - 1u;
  return {row.types & mask, (row.types >> ROW_TYPE_BITS) & mask,
          (row.types >> (2u * ROW_TYPE_BITS)) & mask};
}

inline ScalePlace place_of(TensorRow<SCALE_OPERANDS> row,
                           device const TensorDim<SCALE_OPERANDS>* dims, ulong i) {
  if (row.layout != ROW_STRIDED) return {i, i, i};
  long x = 0;
  long y = 0;
  long out = 0;
  for (uint k = 0; k < row.dim_count; ++k) {
    const TensorDim<SCALE_OPERANDS> dim = dims[row.dim_begin + k];
    const long at = long(i % dim.size);
    i /= dim.size;
    x += at * dim.strides[SCALE_X];
    y += at * dim.strides[SCALE_Y];
    out += at * dim.strides[SCALE_OUT];
  }
  return {ulong(x), ulong(y), ulong(out)};
}

inline float result_of(thread const ScaleWork& work, float x, float y) {
  return has_y != 0u ? scaled_sum(work.a, x, work.b, y) : scaled(work.a, x);
}

inline bool is_bad(float x, float y) {
  return (checks_x != 0u && not_finite(x)) || (checks_y != 0u && not_finite(y));
}

// Says whether anything is infinite or NaN.
inline bool scale_element(thread const ScaleWork& work, ScalePlace at) {
  const float x = load_element(work.row.data[SCALE_X], at.x, work.types.x);
  float y = 0.0f;
  if (has_y != 0u) y = load_element(work.row.data[SCALE_Y], at.y, work.types.y);
  if (work.writes)
    store_element(work.row.data[SCALE_OUT], at.out, work.types.out, result_of(work, x, y));
  return is_bad(x, y);
}

inline bool scale_block(thread const ScaleWork& work, ulong first, uint width) {
  float x[8];
  float y[8];
  load_block(work.row.data[SCALE_X], first, work.types.x, width, x);
  if (has_y != 0u) load_block(work.row.data[SCALE_Y], first, work.types.y, width, y);
  bool bad = false;
  for (uint k = 0; k < width; ++k) {
    const float other = has_y != 0u ? y[k] : 0.0f;
    bad = bad || is_bad(x[k], other);
    x[k] = result_of(work, x[k], other);
  }
  if (work.writes) store_block(work.row.data[SCALE_OUT], first, work.types.out, width, x);
  return bad;
}

// Elements of one load: 16 bytes of 16-bit elements, where all are.
inline uint block_width(ScaleTypes types) {
  const bool wide = types.x == STORAGE_FLOAT32 || (has_y != 0u && types.y == STORAGE_FLOAT32) ||
                    types.out == STORAGE_FLOAT32;
  return wide ? 4u : 8u;
}

kernel void scale(device const TensorRow<SCALE_OPERANDS>* rows [[buffer(0)]],
                  device const RowChunk* chunks [[buffer(1)]],
                  device const TensorDim<SCALE_OPERANDS>* dims [[buffer(2)]],
                  constant ScaleJob& job [[buffer(3)]], device const float* a [[buffer(4)]],
                  device atomic_uint* found_inf [[buffer(5)]],
                  uint group [[threadgroup_position_in_grid]],
                  uint thread_index [[thread_index_in_threadgroup]],
                  uint threads [[threads_per_threadgroup]],
                  uint lane [[thread_index_in_simdgroup]]) {
  const RowChunk chunk = chunks[group];
  ScaleWork work;
  work.row = rows[chunk.row];
  work.types = types_of(work.row);
  work.a = *a;
  work.b = job.b;
  work.writes = in_place == 0u || work.a != 1.0f;
  if (!work.writes && checks_x == 0u) return;

  const ulong begin = ulong(chunk.index) * SCALE_CHUNK;
  const ulong end = min(begin + SCALE_CHUNK, ulong(work.row.numel));
  ulong done = begin;
  bool bad = false;
  if (any_layout == 0u || work.row.layout == ROW_WIDE) {
    const uint width = block_width(work.types);
    done = end - (end - begin) % width;
    for (ulong i = begin + ulong(thread_index) * width; i < done; i += ulong(threads) * width)
      bad = scale_block(work, i, width) || bad;
  }
  for (ulong i = done + thread_index; i < end; i += threads)
    bad = scale_element(work, place_of(work.row, dims, i)) || bad;

  // Any number of simdgroups may store: all the same, and nobody reads it here.
  if ((checks_x != 0u || checks_y != 0u) && simd_any(bad) && lane == 0)
    atomic_store_explicit(found_inf, job.found_bits, memory_order_relaxed);
}
