// Adam and AdamW over a list of tensors in one dispatch: a threadgroup takes one chunk of one
// tensor.
#include <metal_stdlib>

// Before our headers: it holds for what follows it, and their arithmetic is exact only with it.
#pragma clang fp contract(off)

#include "adam_math.h"
#include "adam_tables.h"

using namespace metal;

struct AdamRange {
  ulong begin;
  ulong end;
};

inline void adam_scalar(AdamRow row, device const float* grad, AdamHyper hyper, AdamRange range,
                        uint thread_index, uint threads) {
  for (ulong i = range.begin + thread_index; i < range.end; i += threads) {
    AdamElement x = {row.param[i], row.exp_avg[i], row.exp_avg_sq[i]};
    x = adam_element(x, grad[i], hyper);
    row.param[i] = x.param;
    row.exp_avg[i] = x.exp_avg;
    row.exp_avg_sq[i] = x.exp_avg_sq;
  }
}

// Four elements a load. `range.begin` is a multiple of ADAM_CHUNK, so of 4.
inline void adam_wide(AdamRow row, device const float* grad, AdamHyper hyper, AdamRange range,
                      uint thread_index, uint threads) {
  device float4* params = (device float4*)row.param;
  device float4* exp_avgs = (device float4*)row.exp_avg;
  device float4* exp_avg_sqs = (device float4*)row.exp_avg_sq;
  device const float4* grads = (device const float4*)grad;
  const ulong end = range.end / 4;
  for (ulong i = range.begin / 4 + thread_index; i < end; i += threads) {
    float4 p = params[i];
    float4 g = grads[i];
    float4 m = exp_avgs[i];
    float4 v = exp_avg_sqs[i];
    for (uint k = 0; k < 4; ++k) {
      AdamElement x = {p[k], m[k], v[k]};
      x = adam_element(x, g[k], hyper);
      p[k] = x.param;
      m[k] = x.exp_avg;
      v[k] = x.exp_avg_sq;
    }
    params[i] = p;
    exp_avgs[i] = m;
    exp_avg_sqs[i] = v;
  }
  adam_scalar(row, grad, hyper, {4 * end, range.end}, thread_index, threads);
}

// Elements in logical order, each tensor by its own strides.
inline void adam_strided(AdamRow row, AdamStepRow step, device const AdamDim* dims, AdamHyper hyper,
                         AdamRange range, uint thread_index, uint threads) {
  for (ulong i = range.begin + thread_index; i < range.end; i += threads) {
    ulong rest = i;
    long param = 0;
    long grad = 0;
    long exp_avg = 0;
    long exp_avg_sq = 0;
    for (uint k = 0; k < step.dim_count; ++k) {
      AdamDim dim = dims[step.dim_begin + k];
      long at = long(rest % dim.size);
      rest /= dim.size;
      param += at * dim.param;
      grad += at * dim.grad;
      exp_avg += at * dim.exp_avg;
      exp_avg_sq += at * dim.exp_avg_sq;
    }
    AdamElement x = {row.param[param], row.exp_avg[exp_avg], row.exp_avg_sq[exp_avg_sq]};
    x = adam_element(x, step.grad[grad], hyper);
    row.param[param] = x.param;
    row.exp_avg[exp_avg] = x.exp_avg;
    row.exp_avg_sq[exp_avg_sq] = x.exp_avg_sq;
  }
}

// `strided`: whether any row of the step may be ADAM_STRIDED. Apart, so that the common case does
// not pay for the registers of the rare one.
template <bool strided>
kernel void adam(
    device const AdamRow* rows [[buffer(0)]], device const AdamChunk* chunks [[buffer(1)]],
    device const AdamStepRow* step_rows [[buffer(2)]], device const AdamHyper* hypers [[buffer(3)]],
    device const AdamDim* dims [[buffer(4)]], uint group [[threadgroup_position_in_grid]],
    uint thread_index [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]]) {
  const AdamChunk chunk = chunks[group];
  const AdamStepRow step = step_rows[chunk.row];
  if (step.flags & ADAM_SKIP) return;
  const AdamRow row = rows[chunk.row];
  const AdamHyper hyper = hypers[step.hyper];
  const ulong begin = ulong(chunk.index) * ADAM_CHUNK;
  const AdamRange range = {begin, min(begin + ADAM_CHUNK, ulong(row.numel))};
  if (strided && (step.flags & ADAM_STRIDED)) {
    adam_strided(row, step, dims, hyper, range, thread_index, threads);
  } else if (step.flags & ADAM_WIDE) {
    adam_wide(row, step.grad, hyper, range, thread_index, threads);
  } else {
    adam_scalar(row, step.grad, hyper, range, thread_index, threads);
  }
}

template [[host_name("adam_float32")]] [[kernel]] decltype(adam<false>) adam<false>;
template [[host_name("adam_strided_float32")]] [[kernel]] decltype(adam<true>) adam<true>;
