// Numbers of a step that only the GPU knows: folded into the host's, in pairs, so that they round
// as the host's do.
#pragma once

#include "adam_types.h"

MPS_DS_INLINE FloatPair pair_renormalised(float high, float low) {
  float sum = high + finite_or_zero(low);
  return {sum, finite_or_zero(low) - (sum - high)};
}

MPS_DS_INLINE FloatPair pair_multiply(FloatPair a, FloatPair b) {
  FloatPair product = pair_product(a.high, b.high);
  return pair_renormalised(product.high, product.low + MPS_DS_FMA(a.high, b.low, a.low * b.high));
}

// a / b, for a finite b that is not 0.
MPS_DS_INLINE FloatPair pair_divide(FloatPair a, FloatPair b) {
  float quotient = a.high / b.high;
  float rest = MPS_DS_FMA(-quotient, b.high, a.high) + MPS_DS_FMA(-quotient, b.low, a.low);
  return pair_renormalised(quotient, rest / b.high);
}

// 1 - a
MPS_DS_INLINE FloatPair pair_complement(FloatPair a) {
  FloatPair sum = pair_sum(1.0f, -a.high);
  return pair_renormalised(sum.high, sum.low - a.low);
}

MPS_DS_INLINE FloatPair pair_root(FloatPair a) {
  float root = MPS_DS_SQRT(a.high);
  return pair_renormalised(root, (MPS_DS_FMA(-root, root, a.high) + a.low) / (root + root));
}

// By repeated squaring: base^exponent to some 2^-40.
MPS_DS_INLINE FloatPair pair_power(FloatPair base, uint32_t exponent) {
  FloatPair power = {1.0f, 0.0f};
  for (; exponent != 0u; exponent >>= 1) {
    if (exponent & 1u) power = pair_multiply(power, base);
    base = pair_multiply(base, base);
  }
  return power;
}

// Where a param is whose step count lives on the GPU: the step to come and its corrections.
struct AdamProgress {
  uint32_t step;
  FloatPair inv_correction1;
  FloatPair rsqrt_correction2;
};

MPS_DS_INLINE AdamProgress adam_progress(uint32_t step, AdamHyper h) {
  const FloatPair one = {1.0f, 0.0f};
  if (!(h.flags & ADAM_BIAS_CORRECTION)) return {step, one, one};
  const FloatPair correction1 = pair_complement(pair_power(h.beta1, step));
  const FloatPair correction2 = pair_complement(pair_power(h.beta2, step));
  return {step, pair_divide(one, correction1), pair_divide(one, pair_root(correction2))};
}

MPS_DS_INLINE AdamHyper adam_with_progress(AdamHyper h, AdamProgress progress) {
  h.step = progress.step;
  h.inv_correction1 = progress.inv_correction1;
  h.rsqrt_correction2 = progress.rsqrt_correction2;
  h.step_size = pair_multiply(h.lr, h.inv_correction1);
  return h;
}

MPS_DS_INLINE AdamHyper adam_with_lr(AdamHyper h, float lr) {
  h.lr = {lr, 0.0f};
  h.step_size = pair_scale(h.inv_correction1, lr);
  if (h.flags & ADAM_W) {
    const FloatPair decay = pair_scale(h.weight_decay, lr);
    h.decay = decay.high;
    h.keep = pair_complement(decay);
  }
  return h;
}

// Gradients are divided by `grad_scale`, then multiplied by `clip_coef`.
MPS_DS_INLINE AdamHyper adam_with_factors(AdamHyper h, float grad_scale, float clip_coef) {
  if (grad_scale != 1.0f) h.grad_factor = pair_divide(h.grad_factor, {grad_scale, 0.0f});
  if (clip_coef != 1.0f) h.grad_factor = pair_scale(h.grad_factor, clip_coef);
  return h;
}
