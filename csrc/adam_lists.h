// The arguments of adam_ and their checks, shared by its backends.
#pragma once

#include <vector>

#include "adam_hyper.h"
#include "checks.h"

namespace mps_ds {

struct AdamLists {
  const Tensors& params;
  const Tensors& grads;
  const Tensors& exp_avgs;
  const Tensors& exp_avg_sqs;

  bool empty() const {
    return params.empty() && grads.empty() && exp_avgs.empty() && exp_avg_sqs.empty();
  }
};

// Equal lengths; dense float32 on `device`; shapes as the params'.
void check_adam_lists(const AdamLists& lists, DeviceType device);

// One step count for each param: `steps` as given, or its only entry for all.
std::vector<int64_t> expand_steps(const std::vector<int64_t>& steps, size_t count);

}  // namespace mps_ds
