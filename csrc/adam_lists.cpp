#include "adam_lists.h"

namespace mps_ds {

void check_adam_lists(const AdamLists& lists, DeviceType device) {
  const size_t count = lists.params.size();
  check_length("grads", lists.grads.size(), count, "params");
  check_length("exp_avgs", lists.exp_avgs.size(), count, "params");
  check_length("exp_avg_sqs", lists.exp_avg_sqs.size(), count, "params");
  for (size_t i = 0; i < count; ++i) {
    const ArgumentName param{"params", i};
    check_float32(lists.params[i], param, device);
    const auto check = [&](const Tensor& tensor, const char* list) {
      check_float32(tensor, {list, i}, device);
      check_same_shape(tensor, {list, i}, lists.params[i], param);
    };
    check(lists.grads[i], "grads");
    check(lists.exp_avgs[i], "exp_avgs");
    check(lists.exp_avg_sqs[i], "exp_avg_sqs");
  }
}

std::vector<int64_t> expand_steps(const std::vector<int64_t>& steps, size_t count) {
  if (steps.size() == 1) return std::vector<int64_t>(count, steps[0]);
  check_length("steps", steps.size(), count, "params");
  return steps;
}

}  // namespace mps_ds
