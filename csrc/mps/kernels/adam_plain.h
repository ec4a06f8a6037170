// One Adam step in plain fp32, each operation rounded: for rows of 16-bit params, whose stores
// round far more coarsely, and for optimizer steps on the CPU. In the part of the language that C++
// and Metal share. docs/numerics.md says how far it can be from float64.
//
// F is the type of a value: float, or several floats that the CPU takes at once. The result is the
// same bit for bit, because every fused multiply-add is written out.
#pragma once

#include "adam_types.h"
#include "float_pair.h"

// What a step has to do. Where the compiler knows it, the rest costs nothing.
struct AdamParts {
  bool factor;
  bool clip;
  bool l2;
  bool decay;
  bool amsgrad;
};

// What is 0 is skipped, not multiplied: an infinite param must not turn the gradient into NaN.
MPS_DS_INLINE AdamParts adam_parts(AdamHyper h, bool amsgrad) {
  return {h.grad_factor.high != 1.0f, (h.flags & ADAM_CLIP_VALUE) != 0u, h.l2.high != 0.0f,
          h.decay != 0.0f, amsgrad};
}

template <class F>
MPS_DS_INLINE AdamValues<F> adam_plain(AdamValues<F> x, F grad, AdamHyper h, AdamParts parts) {
  if (parts.factor) grad = F(h.grad_factor.high) * grad;
  if (parts.clip) grad = value_clamp(grad, h.clip_value);
  if (parts.l2) grad = value_fma(F(h.l2.high), x.param, grad);

  x.exp_avg = value_fma(F(h.beta1.high), x.exp_avg, F(h.one_minus_beta1.high) * grad);
  // (1 - beta2) * grad first: grad * grad alone overflows from 1.8e19 on.
  x.exp_avg_sq =
      value_fma(F(h.beta2.high), x.exp_avg_sq, (F(h.one_minus_beta2.high) * grad) * grad);
  F square = x.exp_avg_sq;
  if (parts.amsgrad) {
    square = value_max(x.max_exp_avg_sq, square);
    x.max_exp_avg_sq = square;
  }

  F denominator = value_fma(value_sqrt(square), F(h.rsqrt_correction2.high), F(h.eps.high));
  if (parts.decay) x.param = value_fma(F(-h.decay), x.param, x.param);
  x.param = value_fma(F(-h.step_size.high), x.exp_avg / denominator, x.param);
  return x;
}

template <class F>
MPS_DS_INLINE AdamValues<F> adam_plain(AdamValues<F> x, F grad, AdamHyper h, bool amsgrad) {
  return adam_plain<F>(x, grad, h, adam_parts(h, amsgrad));
}
