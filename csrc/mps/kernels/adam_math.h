// One Adam step of one element, in the part of the language that C++ and Metal share: the Metal
// kernel, the CPU core and the CUDA translation compile this very text, so they round alike.
//
// Intermediate results are pairs of floats, so each stored value is rounded once, to float64's
// result: see docs/numerics.md. Reading and writing 28 bytes an element costs more than this does.
// csrc is built with -ffp-contract=off, the kernels carry a pragma.
#pragma once

#include "adam_types.h"

template <class F>
MPS_DS_INLINE AdamValues<F> adam_element(AdamValues<F> x, F raw_grad, AdamHyper h, bool amsgrad) {
  Pair<F> grad = pair_scale(h.grad_factor, raw_grad);
  if (h.flags & ADAM_CLIP_VALUE) grad = pair_clamp(grad, h.clip_value);
  // Not "+ 0 * param": an infinite param would turn the gradient into NaN.
  if (h.l2.high != 0.0f) grad = pair_add(pair_scale(h.l2, x.param), grad);

  Pair<F> share = pair_scale(h.one_minus_beta1, grad.high);
  share.low = value_fma(F(h.one_minus_beta1.high), grad.low, share.low);
  Pair<F> mean = pair_add(share, pair_scale(h.beta1, x.exp_avg));

  // (1 - beta2) * grad first: grad * grad alone overflows from 1.8e19 on.
  share = pair_scale(h.one_minus_beta2, grad.high);
  share.low = value_fma(F(h.one_minus_beta2.high), grad.low, share.low);
  Pair<F> square = pair_product(share.high, grad.high);
  square.low = square.low + value_fma(share.high, grad.low, share.low * grad.high);
  Pair<F> mean_sq = pair_add(square, pair_scale(h.beta2, x.exp_avg_sq));
  Pair<F> bound = mean_sq;
  if (amsgrad) bound = pair_max(x.max_exp_avg_sq, mean_sq);

  // A step of Newton's method gives the root's low part, whatever the last bits of sqrt are.
  F root = value_sqrt(bound.high);
  F root_low = (value_fma(-root, root, bound.high) + bound.low) / (root + root);

  Pair<F> corrected = pair_scale(h.rsqrt_correction2, root);
  corrected.low = value_fma(F(h.rsqrt_correction2.high), finite_or_zero(root_low), corrected.low);
  Pair<F> denominator = pair_sum(corrected.high, F(h.eps.high));
  denominator.low = denominator.low + (corrected.low + F(h.eps.low));

  // The quotient, and what its product with the denominator leaves of the mean, divided once more.
  F inverse = F(1.0f) / denominator.high;
  F quotient = mean.high * inverse;
  F rest = value_fma(-quotient, denominator.high, mean.high) +
           value_fma(-quotient, denominator.low, mean.low);

  Pair<F> update = pair_scale(h.step_size, quotient);
  update.low = value_fma(F(h.step_size.high), finite_or_zero(rest * inverse), update.low);
  Pair<F> kept = pair_scale(h.keep, x.param);
  Pair<F> difference = pair_sum(kept.high, -update.high);
  F low = finite_or_zero(difference.low + (kept.low - update.low));
  return {difference.high + low, mean.high, mean_sq.high, bound.high};
}
