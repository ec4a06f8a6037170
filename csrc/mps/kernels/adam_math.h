// One Adam step of one element, in the part of the language that C++ and Metal share: the Metal
// kernel, the CPU core and the CUDA translation compile this very text, so they round alike.
//
// Intermediate results are pairs of floats, so each stored value is rounded once, to float64's
// result: see docs/numerics.md. Reading and writing 28 bytes an element costs more than this does.
// csrc is built with -ffp-contract=off, the kernels carry a pragma.
#pragma once

#include "adam_types.h"

// The larger of two numbers that are not negative; NaN if either is one.
MPS_DS_INLINE FloatPair pair_max(float a, FloatPair b) {
  const uint32_t a_bits = MPS_DS_BITS(a);
  const uint32_t b_bits = MPS_DS_BITS(b.high);
  // Where both are not negative, their bits are ordered as they are; NaN comes last.
  if (a_bits > b_bits) return {a, 0.0f};
  return b;
}

MPS_DS_INLINE AdamElement adam_element(AdamElement x, float raw_grad, AdamHyper h, bool amsgrad) {
  FloatPair grad = pair_scale(h.grad_factor, raw_grad);
  if (h.flags & ADAM_CLIP_VALUE) {
    if (grad.high >= h.clip_value) grad = {h.clip_value, 0.0f};
    if (grad.high <= -h.clip_value) grad = {-h.clip_value, 0.0f};
  }
  // Not "+ 0 * param": an infinite param would turn the gradient into NaN.
  if (h.l2.high != 0.0f) grad = pair_add(pair_scale(h.l2, x.param), grad);

  FloatPair share = pair_scale(h.one_minus_beta1, grad.high);
  share.low = MPS_DS_FMA(h.one_minus_beta1.high, grad.low, share.low);
  FloatPair mean = pair_add(share, pair_scale(h.beta1, x.exp_avg));

  // (1 - beta2) * grad first: grad * grad alone overflows from 1.8e19 on.
  share = pair_scale(h.one_minus_beta2, grad.high);
  share.low = MPS_DS_FMA(h.one_minus_beta2.high, grad.low, share.low);
  FloatPair square = pair_product(share.high, grad.high);
  square.low += MPS_DS_FMA(share.high, grad.low, share.low * grad.high);
  FloatPair mean_sq = pair_add(square, pair_scale(h.beta2, x.exp_avg_sq));
  FloatPair bound = mean_sq;
  if (amsgrad) bound = pair_max(x.max_exp_avg_sq, mean_sq);

  // A step of Newton's method gives the root's low part, whatever the last bits of sqrt are.
  float root = MPS_DS_SQRT(bound.high);
  float root_low = (MPS_DS_FMA(-root, root, bound.high) + bound.low) / (root + root);

  FloatPair corrected = pair_scale(h.rsqrt_correction2, root);
  corrected.low = MPS_DS_FMA(h.rsqrt_correction2.high, finite_or_zero(root_low), corrected.low);
  FloatPair denominator = pair_sum(corrected.high, h.eps.high);
  denominator.low += corrected.low + h.eps.low;

  // The quotient, and what its product with the denominator leaves of the mean, divided once more.
  float inverse = 1.0f / denominator.high;
  float quotient = mean.high * inverse;
  float rest = MPS_DS_FMA(-quotient, denominator.high, mean.high) +
               MPS_DS_FMA(-quotient, denominator.low, mean.low);

  FloatPair update = pair_scale(h.step_size, quotient);
  update.low = MPS_DS_FMA(h.step_size.high, finite_or_zero(rest * inverse), update.low);
  FloatPair kept = pair_scale(h.keep, x.param);
  FloatPair difference = pair_sum(kept.high, -update.high);
  float low = finite_or_zero(difference.low + (kept.low - update.low));
  return {difference.high + low, mean.high, mean_sq.high, bound.high};
}
