// The numbers of one Adam step, and what it does to one element; in the part of the language that
// C++ and Metal share.
#pragma once

#include "float_pair.h"

// AdamHyper::flags
#define ADAM_W 1u                // decoupled weight decay
#define ADAM_BIAS_CORRECTION 2u  // else the corrections are 1
#define ADAM_CLIP_VALUE 4u       // clip_value holds

// For all elements that share a param group and a step count; computed in double by the host.
// Adam: Kingma and Ba, 2015, algorithm 1. AdamW: Loshchilov and Hutter, 2019, algorithm 2.
struct AdamHyper {
  FloatPair grad_factor;  // -1 to maximize, over grad_scale, times a clip coefficient
  FloatPair l2;           // Adam: weight_decay, added to the gradient; AdamW: 0
  FloatPair keep;         // AdamW: 1 - lr * weight_decay, what is left of the param; Adam: 1
  FloatPair beta1;
  FloatPair one_minus_beta1;
  FloatPair beta2;
  FloatPair one_minus_beta2;
  FloatPair rsqrt_correction2;  // 1 / sqrt(1 - beta2^t)
  FloatPair step_size;          // lr / (1 - beta1^t)
  FloatPair eps;
  FloatPair lr;
  FloatPair weight_decay;
  FloatPair inv_correction1;  // 1 / (1 - beta1^t)
  float decay;                // AdamW: lr * weight_decay; Adam: 0
  float clip_value;           // bound of a gradient's magnitude
  uint32_t flags;
  uint32_t step;  // t, where the host knows it
};

// F: float, or several floats that the CPU takes at once.
template <class F>
struct AdamValues {
  F param;
  F exp_avg;
  F exp_avg_sq;
  F max_exp_avg_sq;  // amsgrad
};

typedef AdamValues<float> AdamElement;
