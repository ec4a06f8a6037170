// From the lists of tensors that an operation gets to jobs.
#pragma once

#include "adam_lists.h"
#include "cpu_adam/jobs.h"

namespace mps_ds::cpu_adam {

AdamStreamTensors streams_of(const AdamLists& lists, size_t i, const Tensor& grad);

// Raises where something that is written shares memory with anything else.
void check_apart(const AdamLists& lists, const Tensors& grads);

}  // namespace mps_ds::cpu_adam
