// Adam and AdamW over a list of tensors in one dispatch: a threadgroup takes one chunk of one
// tensor.
#include <metal_stdlib>

// Before our headers: it holds for what follows it, and their arithmetic is exact only with it.
#pragma clang fp contract(off)

#include "adam_math.h"
#include "adam_plain.h"
#include "adam_scalars.h"
#include "adam_tables.h"
#include "philox.h"
#include "storage.h"

using namespace metal;

// A pipeline is for one combination of these; what it does not need is gone when it is made.
constant uint param_type [[function_constant(0)]];
constant uint grad_type [[function_constant(1)]];
constant uint state_type [[function_constant(2)]];
constant uint copy_type [[function_constant(3)]];  // STORAGE_NONE: no copy
constant uint amsgrad [[function_constant(4)]];
constant uint strided [[function_constant(5)]];       // any row of the step may be ADAM_STRIDED
constant uint device_steps [[function_constant(6)]];  // step counts are on the GPU
constant uint stochastic [[function_constant(7)]];    // bfloat params are rounded at random

// One param in this step.
struct AdamWork {
  AdamRow row;
  device const void* grad;
  AdamHyper hyper;
  ulong seed;
  uint row_index;
};

inline AdamElement adam_update(AdamElement x, float grad, thread const AdamWork& work) {
  // 16-bit params round away far more than plain arithmetic does.
  if (param_type == STORAGE_FLOAT32) return adam_element(x, grad, work.hyper, amsgrad != 0u);
  return adam_plain(x, grad, work.hyper, amsgrad != 0u);
}

inline PhiloxBits bits_for(thread const AdamWork& work, ulong element) {
  if (stochastic == 0u) return PhiloxBits{{0u, 0u, 0u, 0u}};
  return rounding_bits(work.seed, work.row_index, work.hyper.step, element >> 3);
}

// Where one element of each operand is.
struct AdamOffsets {
  long at[ADAM_OPERANDS];
};

inline void adam_one(thread const AdamWork& work, AdamOffsets offsets, ulong element) {
  AdamElement x;
  x.param = load_element(work.row.param, offsets.at[ADAM_PARAM], param_type);
  x.exp_avg = load_element(work.row.exp_avg, offsets.at[ADAM_EXP_AVG], state_type);
  x.exp_avg_sq = load_element(work.row.exp_avg_sq, offsets.at[ADAM_EXP_AVG_SQ], state_type);
  x.max_exp_avg_sq = 0.0f;
  if (amsgrad != 0u)
    x.max_exp_avg_sq =
        load_element(work.row.max_exp_avg_sq, offsets.at[ADAM_MAX_EXP_AVG_SQ], state_type);
  x = adam_update(x, load_element(work.grad, offsets.at[ADAM_GRAD], grad_type), work);
  if (stochastic != 0u)
    x.param = round_at_random(x.param, rounding_lane(bits_for(work, element), uint(element & 7u)));
  store_element(work.row.param, offsets.at[ADAM_PARAM], param_type, x.param);
  store_element(work.row.exp_avg, offsets.at[ADAM_EXP_AVG], state_type, x.exp_avg);
  store_element(work.row.exp_avg_sq, offsets.at[ADAM_EXP_AVG_SQ], state_type, x.exp_avg_sq);
  if (amsgrad != 0u)
    store_element(work.row.max_exp_avg_sq, offsets.at[ADAM_MAX_EXP_AVG_SQ], state_type,
                  x.max_exp_avg_sq);
  if (copy_type != STORAGE_NONE)
    store_element(work.row.copy, offsets.at[ADAM_COPY], copy_type, x.param);
}

struct AdamRange {
  ulong begin;
  ulong end;
};

inline void adam_dense(thread const AdamWork& work, ulong element) {
  const long at = long(element);
  adam_one(work, AdamOffsets{{at, at, at, at, at, at}}, element);
}

inline void adam_scalar(thread const AdamWork& work, AdamRange range, uint thread_index,
                        uint threads) {
  for (ulong i = range.begin + thread_index; i < range.end; i += threads) adam_dense(work, i);
}

// `width` elements a thread, in loads of 16 bytes where the type allows. `range.begin` is a
// multiple of ADAM_CHUNK, so of `width`.
inline void adam_wide(thread const AdamWork& work, AdamRange range, uint thread_index,
                      uint threads) {
  const uint width = ADAM_WIDTH(state_type);
  const ulong end = range.end / width;
  for (ulong block = range.begin / width + thread_index; block < end; block += threads) {
    const ulong first = block * width;
    float param[8], grad[8], exp_avg[8], exp_avg_sq[8], max_exp_avg_sq[8];
    load_block(work.row.param, first, param_type, width, param);
    load_block(work.grad, first, grad_type, width, grad);
    load_block(work.row.exp_avg, first, state_type, width, exp_avg);
    load_block(work.row.exp_avg_sq, first, state_type, width, exp_avg_sq);
    if (amsgrad != 0u)
      load_block(work.row.max_exp_avg_sq, first, state_type, width, max_exp_avg_sq);
    const PhiloxBits bits = bits_for(work, first);
    bool finite = true;
    for (uint k = 0; k < width; ++k) {
      AdamElement x = {param[k], exp_avg[k], exp_avg_sq[k],
                       amsgrad != 0u ? max_exp_avg_sq[k] : 0.0f};
      if (param_type == STORAGE_FLOAT32) {
        x = adam_element_unguarded(x, grad[k], work.hyper, amsgrad != 0u);
        finite = finite && adam_is_finite(x);
      } else {
        x = adam_update(x, grad[k], work);
      }
      if (stochastic != 0u)
        x.param = round_at_random(x.param, rounding_lane(bits, uint(first + k) & 7u));
      param[k] = x.param;
      exp_avg[k] = x.exp_avg;
      exp_avg_sq[k] = x.exp_avg_sq;
      max_exp_avg_sq[k] = x.max_exp_avg_sq;
    }
    if (!finite) {  // rare: nothing is stored yet, so over again from memory
      for (uint k = 0; k < width; ++k) adam_dense(work, first + k);
      continue;
    }
    store_block(work.row.param, first, param_type, width, param);
    store_block(work.row.exp_avg, first, state_type, width, exp_avg);
    store_block(work.row.exp_avg_sq, first, state_type, width, exp_avg_sq);
    if (amsgrad != 0u)
      store_block(work.row.max_exp_avg_sq, first, state_type, width, max_exp_avg_sq);
    if (copy_type != STORAGE_NONE)  // of a fp32 param, so finite
      store_block(work.row.copy, first, copy_type, width, param, false);
  }
  adam_scalar(work, {width * end, range.end}, thread_index, threads);
}

// Elements in logical order, each tensor by its own strides.
inline void adam_strided(thread const AdamWork& work, AdamStepRow step, device const AdamDim* dims,
                         AdamRange range, uint thread_index, uint threads) {
  for (ulong i = range.begin + thread_index; i < range.end; i += threads) {
    ulong rest = i;
    AdamOffsets offsets = {{0, 0, 0, 0, 0, 0}};
    for (uint k = 0; k < step.dim_count; ++k) {
      device const AdamDim& dim = dims[step.dim_begin + k];
      const long index = long(rest % dim.size);
      rest /= dim.size;
      for (uint operand = 0; operand < ADAM_OPERANDS; ++operand)
        offsets.at[operand] += index * dim.strides[operand];
    }
    adam_one(work, offsets, i);
  }
}

// The numbers of one row: the host's, and what only the GPU knows.
inline AdamHyper adam_numbers(AdamHyper hyper, AdamStepRow step, constant AdamCall& call,
                              device const float* grad_scale, device const float* clip_coef,
                              device const float* clip_value) {
  if (step.lr) hyper = adam_with_lr(hyper, *step.lr);
  if (call.flags & ADAM_CLIP_VALUE_TENSOR) {
    hyper.clip_value = *clip_value;
    hyper.flags |= ADAM_CLIP_VALUE;
  }
  return adam_with_factors(hyper, call.flags & ADAM_GRAD_SCALE ? *grad_scale : call.grad_scale,
                           call.flags & ADAM_CLIP_COEF ? *clip_coef : call.clip_coef);
}

// `progress`: where each param is, `next_progress`: where it will be after this step. Two tables,
// because all threadgroups of a param read the one while one of them writes the other.
kernel void adam(
    device const AdamRow* rows [[buffer(0)]], device const AdamChunk* chunks [[buffer(1)]],
    device const AdamStepRow* step_rows [[buffer(2)]], device const AdamHyper* hypers [[buffer(3)]],
    device const AdamDim* dims [[buffer(4)]], constant AdamCall& call [[buffer(5)]],
    device const uint* found_inf [[buffer(6)]], device const float* grad_scale [[buffer(7)]],
    device const float* clip_coef [[buffer(8)]], device const float* clip_value [[buffer(9)]],
    device const AdamProgress* progress [[buffer(10)]],
    device AdamProgress* next_progress [[buffer(11)]], uint group [[threadgroup_position_in_grid]],
    uint thread_index [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]]) {
  const AdamChunk chunk = chunks[group];
  const AdamStepRow step = step_rows[chunk.row];
  const bool keeps_count = device_steps != 0u && chunk.index == 0u && thread_index == 0u;
  const bool skipped = (call.flags & ADAM_FOUND_INF) && (*found_inf & 0x7fffffffu) != 0u;
  if ((step.flags & ADAM_SKIP) || (skipped && ADAM_GRAD_TYPE(step.flags) == grad_type)) {
    if (keeps_count) next_progress[chunk.row] = progress[chunk.row];
    return;
  }
  if (ADAM_GRAD_TYPE(step.flags) != grad_type) return;  // of another dispatch

  const AdamRow row = rows[chunk.row];
  AdamHyper hyper = hypers[step.hyper];
  if (device_steps != 0u) {
    const AdamProgress now = progress[chunk.row];
    if (keeps_count) {
      *row.step = float(now.step);
      next_progress[chunk.row] = adam_progress(now.step + 1u, hyper);
    }
    hyper = adam_with_progress(hyper, now);
  }
  const AdamWork work = {row, step.grad,
                         adam_numbers(hyper, step, call, grad_scale, clip_coef, clip_value),
                         call.seed, chunk.row};
  const ulong begin = ulong(chunk.index) * ADAM_CHUNK;
  const AdamRange range = {begin, min(begin + ADAM_CHUNK, ulong(row.numel))};
  if (strided != 0u && (step.flags & ADAM_STRIDED)) {
    adam_strided(work, step, dims, range, thread_index, threads);
  } else if (step.flags & ADAM_WIDE) {
    adam_wide(work, range, thread_index, threads);
  } else {
    adam_scalar(work, range, thread_index, threads);
  }
}

// Before the first step with step counts on the GPU, and after somebody has changed them: the step
// to come of each param. One thread a row.
kernel void adam_start(device const AdamRow* rows [[buffer(0)]],
                       device const AdamStepRow* step_rows [[buffer(1)]],
                       device const AdamHyper* hypers [[buffer(2)]],
                       device AdamProgress* progress [[buffer(3)]],
                       constant uint& count [[buffer(4)]], uint row [[thread_position_in_grid]]) {
  if (row >= count) return;
  progress[row] = adam_progress(uint(*rows[row].step) + 1u, hypers[step_rows[row].hyper]);
}
