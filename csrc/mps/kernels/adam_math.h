// One Adam step of one element, in the part of the language that C++ and Metal share: the Metal
// kernel, the CPU core and the CUDA translation compile this very text, so they round alike.
//
// fp32 throughout. Products that are added are written as fma(); compilers may not contract the
// rest (csrc is built with -ffp-contract=off, the kernels carry a pragma). What depends only on
// the step (1 - beta, bias corrections) comes from the host, computed in double: in fp32,
// 1 - 0.999f is 1.3e-5 off.
#pragma once

#if defined(__METAL_VERSION__)
#define MPS_DS_SQRT metal::precise::sqrt
#define MPS_DS_FMA metal::fma
#define MPS_DS_BITS(x) as_type<uint32_t>(x)
#else
#include <cmath>
#include <cstdint>
#define MPS_DS_SQRT std::sqrt
#define MPS_DS_FMA std::fma
#define MPS_DS_BITS(x) __builtin_bit_cast(uint32_t, x)
#endif

// The numbers of one step for all elements that share a param group and a step count.
// Adam: Kingma and Ba, 2015, algorithm 1. AdamW: Loshchilov and Hutter, 2019, algorithm 2.
struct AdamHyper {
  float grad_sign;  // -1 to maximize
  float l2;         // Adam: weight_decay, added to the gradient; AdamW: 0
  float decay;      // AdamW: lr * weight_decay, taken from the param; Adam: 0
  // Decay rates and their complements, each as a sum of two floats: one alone is up to half an ulp
  // off, and each rate is applied to every element of every step.
  float beta1, beta1_low;
  float one_minus_beta1, one_minus_beta1_low;
  float beta2, beta2_low;
  float one_minus_beta2, one_minus_beta2_low;
  float rsqrt_correction2;  // 1 / sqrt(1 - beta2^t)
  float step_size;          // lr / (1 - beta1^t)
  float eps;
};

struct AdamElement {
  float param;
  float exp_avg;
  float exp_avg_sq;
};

// A correction, or 0 where the value that it corrects is infinite or NaN already (0 * inf is NaN).
// On bits: fast math would drop a comparison.
inline float adam_correction(float x) {
  return (MPS_DS_BITS(x) & 0x7fffffffu) < 0x7f800000u ? x : 0.0f;
}

// Error bounds: docs/numerics.md.
inline AdamElement adam_element(AdamElement x, float grad, AdamHyper h) {
  grad *= h.grad_sign;
  // Not "+ 0 * param": an infinite param would turn the gradient into NaN.
  if (h.l2 != 0.0f) grad = MPS_DS_FMA(h.l2, x.param, grad);
  if (h.decay != 0.0f) x.param = MPS_DS_FMA(-h.decay, x.param, x.param);

  float low = adam_correction(MPS_DS_FMA(h.one_minus_beta1_low, grad, h.beta1_low * x.exp_avg));
  x.exp_avg = MPS_DS_FMA(h.one_minus_beta1, grad, MPS_DS_FMA(h.beta1, x.exp_avg, low));

  // (1 - beta2) * grad first: grad * grad alone overflows from 1.8e19 on.
  float scaled_grad =
      MPS_DS_FMA(h.one_minus_beta2, grad, adam_correction(h.one_minus_beta2_low * grad));
  low = adam_correction(h.beta2_low * x.exp_avg_sq);
  x.exp_avg_sq = MPS_DS_FMA(scaled_grad, grad, MPS_DS_FMA(h.beta2, x.exp_avg_sq, low));

  float denominator = MPS_DS_FMA(MPS_DS_SQRT(x.exp_avg_sq), h.rsqrt_correction2, h.eps);
  x.param = MPS_DS_FMA(-h.step_size, x.exp_avg / denominator, x.param);
  return x;
}
