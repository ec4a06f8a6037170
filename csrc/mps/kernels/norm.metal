// L2 and infinity norms, and whether anything is infinite or NaN, over a list of tensors in two
// dispatches: a partial result for each chunk, then results from the partials. Each is computed by
// one thread in a fixed order, so the bits do not depend on who ran first.
#include <metal_stdlib>

// Before our headers: it holds for what follows it, and their arithmetic is exact only with it.
#pragma clang fp contract(off)

#include "norm_math.h"
#include "norm_tables.h"
#include "storage.h"

using namespace metal;

constant uint norm_kind [[function_constant(0)]];    // NORM_L2 or NORM_INF
constant uint type_of_all [[function_constant(1)]];  // STORAGE_*, or NORM_ANY_TYPE
constant uint any_layout [[function_constant(2)]];   // 0: all rows are ROW_WIDE

// What a thread has seen of its elements.
struct NormState {
  NormSums sums;
  uint largest;  // magnitude, as bits
};

inline NormState empty_state() {
  return {{{0.0f, 0.0f}, {0.0f, 0.0f}, {0.0f, 0.0f}}, 0u};
}

inline NormState add_block(NormState state, NormBlock block, uint type) {
  if (norm_kind == NORM_L2) {
    state.sums = norm_add(state.sums, block, type);
  } else {
    state.largest = larger(state.largest, magnitude_bits(block));
  }
  return state;
}

inline NormBlock full_block(device const void* p, ulong block, uint type) {
  NormBlock values = {{0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}};
  const uint width = norm_block(type);
  load_block(p, block * width, type, width, values.x);
  return values;
}

inline long element_offset(TensorRow<1> row, device const TensorDim<1>* dims, ulong i) {
  if (row.layout != ROW_STRIDED) return long(i);
  long offset = 0;
  for (uint k = 0; k < row.dim_count; ++k) {
    const TensorDim<1> dim = dims[row.dim_begin + k];
    offset += long(i % dim.size) * dim.strides[0];
    i /= dim.size;
  }
  return offset;
}

// A block element by element: of any layout, or not full. What is missing is 0.
inline NormBlock gather_block(TensorRow<1> row, device const TensorDim<1>* dims, ulong block,
                              uint type) {
  NormBlock values = {{0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}};
  const uint width = norm_block(type);
  const ulong begin = block * width;
  const uint count = uint(min(ulong(width), row.numel - begin));
  for (uint k = 0; k < count; ++k)
    values.x[k] = load_element(row.data[0], ulong(element_offset(row, dims, begin + k)), type);
  return values;
}

// The thread's blocks of [begin, end): every NORM_THREADS-th. Four loads are under way at a time.
inline NormState add_wide(NormState state, device const void* p, ulong begin, ulong end,
                          uint type) {
  ulong i = begin;
  for (; i + 3 * NORM_THREADS < end; i += 4 * NORM_THREADS) {
    const NormBlock a = full_block(p, i, type);
    const NormBlock b = full_block(p, i + NORM_THREADS, type);
    const NormBlock c = full_block(p, i + 2 * NORM_THREADS, type);
    const NormBlock d = full_block(p, i + 3 * NORM_THREADS, type);
    state = add_block(state, a, type);
    state = add_block(state, b, type);
    state = add_block(state, c, type);
    state = add_block(state, d, type);
  }
  for (; i < end; i += NORM_THREADS) state = add_block(state, full_block(p, i, type), type);
  return state;
}

inline NormState add_chunk(TensorRow<1> row, device const TensorDim<1>* dims, ulong begin,
                           ulong end, uint type, uint thread_index) {
  const uint width = norm_block(type);
  const ulong blocks = (end + width - 1) / width;
  ulong i = begin / width + thread_index;
  NormState state = empty_state();
  if (any_layout == 0u || row.layout == ROW_WIDE) {
    const ulong full = end / width;
    state = add_wide(state, row.data[0], i, full, type);
    // What is left is the last block, and the turn of one thread.
    if (full < blocks && full >= i && (full - i) % NORM_THREADS == 0)
      state = add_block(state, gather_block(row, dims, full, type), type);
    return state;
  }
  for (; i < blocks; i += NORM_THREADS)
    state = add_block(state, gather_block(row, dims, i, type), type);
  return state;
}

inline FloatPair from_lane(FloatPair x, ushort distance) {
  return {simd_shuffle_down(x.high, distance), simd_shuffle_down(x.low, distance)};
}

// The states of the lanes below 2 * `distance`, halved again and again; right in lane 0.
inline NormState merge_lanes(NormState state, ushort distance) {
  if (norm_kind == NORM_INF) {
    for (; distance > 0; distance /= 2)
      state.largest = larger(state.largest, simd_shuffle_down(state.largest, distance));
    return state;
  }
  const bool plain = simd_all(only_plain(state.sums));
  for (; distance > 0; distance /= 2) {
    state.sums.plain = pair_add(state.sums.plain, from_lane(state.sums.plain, distance));
    if (plain) continue;
    state.sums.shrunk = pair_add(state.sums.shrunk, from_lane(state.sums.shrunk, distance));
    state.sums.grown = pair_add(state.sums.grown, from_lane(state.sums.grown, distance));
  }
  return state;
}

// The states of all threads, as one partial; right in thread 0.
inline NormPartial merge_threads(NormState state, threadgroup NormState* of_simdgroups,
                                 uint thread_index) {
  state = merge_lanes(state, 16);
  if (thread_index % 32 == 0) of_simdgroups[thread_index / 32] = state;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  state = empty_state();
  if (thread_index < NORM_SIMDGROUPS) state = of_simdgroups[thread_index];
  if (thread_index < 32) state = merge_lanes(state, NORM_SIMDGROUPS / 2);
  if (norm_kind == NORM_L2) return norm_partial(state.sums);
  return {as_type<float>(state.largest), 0.0f, NORM_PLAIN, state.largest >= 0x7f800000u ? 1u : 0u};
}

[[max_total_threads_per_threadgroup(NORM_THREADS)]]
kernel void norm_partials(device const TensorRow<1>* rows [[buffer(0)]],
                          device const RowChunk* chunks [[buffer(1)]],
                          device const TensorDim<1>* dims [[buffer(2)]],
                          constant NormJob& job [[buffer(3)]],
                          device NormPartial* partials [[buffer(4)]],
                          uint group [[threadgroup_position_in_grid]],
                          uint thread_index [[thread_index_in_threadgroup]]) {
  threadgroup NormState of_simdgroups[NORM_SIMDGROUPS];
  const RowChunk chunk = chunks[group];
  const TensorRow<1> row = rows[chunk.row];
  const ulong begin = ulong(chunk.index) * job.span;
  const ulong end = min(begin + job.span, ulong(row.numel));
  const uint type = type_of_all == NORM_ANY_TYPE ? row.types : type_of_all;
  NormState state;
  // One of three: a constant type lets the compiler drop the branches of the others.
  if (type == STORAGE_FLOAT32) {
    state = add_chunk(row, dims, begin, end, STORAGE_FLOAT32, thread_index);
  } else if (type == STORAGE_FLOAT16) {
    state = add_chunk(row, dims, begin, end, STORAGE_FLOAT16, thread_index);
  } else {
    state = add_chunk(row, dims, begin, end, STORAGE_BFLOAT16, thread_index);
  }
  const NormPartial partial = merge_threads(state, of_simdgroups, thread_index);
  if (thread_index == 0) partials[group] = partial;
}

// What a thread has seen of the partials. Apart from the sums: what is left out of a norm may still
// be looked at.
struct FinishState {
  NormState state;
  uint found;
};

// `words`: a NormPartial, in one load.
inline FinishState add_partial(FinishState finish, uint4 words) {
  const NormPartial partial = {as_type<float>(words.x), as_type<float>(words.y), words.z, words.w};
  finish.found |= partial.non_finite;
  if (norm_kind == NORM_L2) {
    finish.state.sums = norm_add_partial(finish.state.sums, partial);
  } else {
    finish.state.largest = larger(finish.state.largest, words.x);
  }
  return finish;
}

// The thread's partials of [i, end): every NORM_THREADS-th, four loads under way at a time.
inline FinishState add_partials(device const uint4* partials, uint i, uint end) {
  FinishState finish = {empty_state(), 0u};
  for (; i + 3 * NORM_THREADS < end; i += 4 * NORM_THREADS) {
    const uint4 a = partials[i];
    const uint4 b = partials[i + NORM_THREADS];
    const uint4 c = partials[i + 2 * NORM_THREADS];
    const uint4 d = partials[i + 3 * NORM_THREADS];
    finish = add_partial(finish, a);
    finish = add_partial(finish, b);
    finish = add_partial(finish, c);
    finish = add_partial(finish, d);
  }
  for (; i < end; i += NORM_THREADS) finish = add_partial(finish, partials[i]);
  return finish;
}

[[max_total_threads_per_threadgroup(NORM_THREADS)]]
kernel void norm_finish(device const uint4* partials [[buffer(0)]],
                        device const NormSegment* segments [[buffer(1)]],
                        constant NormJob& job [[buffer(2)]],
                        device const float* divisor [[buffer(3)]],
                        device float* norms [[buffer(4)]], device float* total [[buffer(5)]],
                        device float* found_inf [[buffer(6)]], device float* coef [[buffer(7)]],
                        uint group [[threadgroup_position_in_grid]],
                        uint thread_index [[thread_index_in_threadgroup]]) {
  threadgroup NormState of_simdgroups[NORM_SIMDGROUPS];
  threadgroup uint found_of_simdgroups[NORM_SIMDGROUPS];
  const NormSegment segment = segments[group];
  const FinishState finish = add_partials(partials, segment.begin + thread_index, segment.end);
  const bool any = simd_any(finish.found != 0u);
  if (thread_index % 32 == 0) found_of_simdgroups[thread_index / 32] = any ? 1u : 0u;
  const NormPartial sum = merge_threads(finish.state, of_simdgroups, thread_index);
  if (thread_index != 0) return;
  uint found = 0;
  for (uint k = 0; k < NORM_SIMDGROUPS; ++k) found |= found_of_simdgroups[k];
  const float norm = norm_kind == NORM_L2 ? l2_norm(sum, *divisor) : inf_norm(sum.high, *divisor);
  if (segment.writes & NORM_WRITES_ENTRY) norms[segment.slot] = norm;
  if (segment.writes & NORM_WRITES_TOTAL) *total = norm;
  if (segment.writes & NORM_WRITES_FOUND) *found_inf = found != 0u ? 1.0f : 0.0f;
  if (segment.writes & NORM_WRITES_COEF)
    *coef = job.clips != 0u ? clip_coefficient(norm, job.max_norm) : 1.0f;
}
