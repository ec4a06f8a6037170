// One Adam step of one element, in the part of the language that C++ and Metal share: the Metal
// kernel, the CPU core and the CUDA translation compile this very text, so they round alike.
//
// Intermediate results are pairs of floats, so each stored value is rounded once, to float64's
// result: see docs/numerics.md. Reading and writing 28 bytes an element costs more than this does.
// csrc is built with -ffp-contract=off, the kernels carry a pragma.
#pragma once

#include "adam_types.h"

// `guarded`: low parts that are infinite or NaN are dropped, so that high parts come out as in
// plain arithmetic. Where everything is finite, that changes no bit.
template <bool guarded, class F>
MPS_DS_INLINE F adam_low(F x) {
  return guarded ? finite_or_zero(x) : x;
}

template <bool guarded, class F>
MPS_DS_INLINE Pair<F> adam_sum(Pair<F> a, Pair<F> b) {
  Pair<F> sum = pair_sum(a.high, b.high);
  F low = adam_low<guarded>(sum.low + (a.low + b.low));
  F high = sum.high + low;
  return {high, low - (high - sum.high)};
}

// The gradient as the step takes it.
template <bool guarded, class F>
MPS_DS_INLINE Pair<F> adam_grad(F param, F raw_grad, AdamHyper h) {
  Pair<F> grad = pair_scale(h.grad_factor, raw_grad);
  if (h.flags & ADAM_CLIP_VALUE) grad = pair_clamp(grad, h.clip_value);
  // Not "+ 0 * param": an infinite param would turn the gradient into NaN.
  if (h.l2.high != 0.0f) grad = adam_sum<guarded>(pair_scale(h.l2, param), grad);
  return grad;
}

// The rest of the step. `whole`: the gradient's low part is 0.
template <bool guarded, bool whole, class F>
MPS_DS_INLINE AdamValues<F> adam_step(AdamValues<F> x, Pair<F> grad, AdamHyper h, bool amsgrad) {
  Pair<F> share = pair_scale(h.one_minus_beta1, grad.high);
  if (!whole) share.low = value_fma(F(h.one_minus_beta1.high), grad.low, share.low);
  Pair<F> mean = adam_sum<guarded>(share, pair_scale(h.beta1, x.exp_avg));

  // (1 - beta2) * grad first: grad * grad alone overflows from 1.8e19 on.
  share = pair_scale(h.one_minus_beta2, grad.high);
  if (!whole) share.low = value_fma(F(h.one_minus_beta2.high), grad.low, share.low);
  Pair<F> square = pair_product(share.high, grad.high);
  F square_low = share.low * grad.high;
  if (!whole) square_low = value_fma(share.high, grad.low, square_low);
  square.low = square.low + square_low;
  Pair<F> mean_sq = adam_sum<guarded>(square, pair_scale(h.beta2, x.exp_avg_sq));
  Pair<F> bound = mean_sq;
  if (amsgrad) bound = pair_max(x.max_exp_avg_sq, mean_sq);

  // A step of Newton's method gives the root's low part, whatever the last bits of sqrt are. The
  // root of a normal number is at least 2^-63: 2^-100 is lost beside it, and keeps 0 / 0 away.
  F root = value_sqrt(bound.high);
  F twice_root = value_fma(F(2.0f), root, F(7.888609e-31f));
  F root_low = (value_fma(-root, root, bound.high) + bound.low) / twice_root;

  Pair<F> corrected = pair_scale(h.rsqrt_correction2, root);
  corrected.low =
      value_fma(F(h.rsqrt_correction2.high), adam_low<guarded>(root_low), corrected.low);
  Pair<F> denominator = pair_sum(corrected.high, F(h.eps.high));
  denominator.low = denominator.low + (corrected.low + F(h.eps.low));

  // The quotient, and what its product with the denominator leaves of the mean, divided once more.
  F inverse = F(1.0f) / denominator.high;
  F quotient = mean.high * inverse;
  F rest = value_fma(-quotient, denominator.high, mean.high) +
           value_fma(-quotient, denominator.low, mean.low);

  Pair<F> update = pair_scale(h.step_size, quotient);
  update.low = value_fma(F(h.step_size.high), adam_low<guarded>(rest * inverse), update.low);
  Pair<F> kept = pair_scale(h.keep, x.param);
  Pair<F> difference = pair_sum(kept.high, -update.high);
  F low = adam_low<guarded>(difference.low + (kept.low - update.low));
  return {difference.high + low, mean.high, mean_sq.high, bound.high};
}

template <class F>
MPS_DS_INLINE AdamValues<F> adam_element(AdamValues<F> x, F raw_grad, AdamHyper h, bool amsgrad) {
  return adam_step<true, false>(x, adam_grad<true>(x.param, raw_grad, h), h, amsgrad);
}

// Whether the gradient is taken as it is.
MPS_DS_INLINE bool adam_takes_raw_grad(AdamHyper h) {
  return h.grad_factor.high == 1.0f && h.grad_factor.low == 0.0f && h.l2.high == 0.0f &&
         !(h.flags & ADAM_CLIP_VALUE);
}

// The same bits with two thirds of the operations, for a GPU that has many to do for a byte:
// without guards. Holds where the new param is finite; else whoever calls has to take adam_element.
//
// Whatever is not finite on the way makes the param so: all of it goes into the param, by sums, by
// products and by quotients, where what is infinite leaves NaN in the low part.
MPS_DS_INLINE AdamElement adam_element_unguarded(AdamElement x, float raw_grad, AdamHyper h,
                                                 bool amsgrad) {
  if (adam_takes_raw_grad(h)) {
    const FloatPair grad = {raw_grad, 0.0f};
    return adam_step<false, true>(x, grad, h, amsgrad);
  }
  return adam_step<false, false>(x, adam_grad<false>(x.param, raw_grad, h), h, amsgrad);
}

MPS_DS_INLINE bool adam_is_finite(AdamElement x) {
  return (MPS_DS_BITS(x.param) & 0x7f800000u) != 0x7f800000u;
}
