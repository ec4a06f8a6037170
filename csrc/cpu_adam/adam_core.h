// Adam on host memory: pointers and numbers, no torch. Agrees bit for bit with the Metal kernel on
// a device that keeps subnormals (mps/kernels/adam_math.h is the arithmetic of both).
#pragma once

#include <cstdint>

#include "mps/kernels/adam_math.h"

namespace mps_ds {

struct AdamPointers {
  float* param;
  const float* grad;
  float* exp_avg;
  float* exp_avg_sq;
};

struct AdamStrides {
  int64_t param;
  int64_t grad;
  int64_t exp_avg;
  int64_t exp_avg_sq;
};

// Elements i of [0, count), at pointers + i * strides. Buffers may not overlap.
void adam_run(AdamPointers at, AdamStrides strides, int64_t count, const AdamHyper& hyper);

}  // namespace mps_ds
