// Adam steps of bfloat16 params that are rounded at random.
#pragma once

#include "cpu_adam/adam_core.h"

namespace mps_ds::cpu_adam {

struct RandomRounding {
  uint64_t seed;
  uint32_t row;
  uint32_t step;
};

// As adam_step with plain arithmetic; the same bits as the Metal kernel.
void adam_step_at_random(const AdamTensors& tensors, const std::vector<AdamDim>& dims,
                         int64_t begin, int64_t end, const AdamHyper& hyper,
                         const RandomRounding& rounding);

}  // namespace mps_ds::cpu_adam
