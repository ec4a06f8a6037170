#include "adam_hyper.h"

#include <cmath>

#include "checks.h"

namespace mps_ds {

void check_adam_options(const AdamOptions& o) {
  MPS_DS_CHECK(std::isfinite(o.lr) && o.lr >= 0, "lr is ", o.lr, "; it must be finite and >= 0");
  MPS_DS_CHECK(o.beta1 >= 0 && o.beta1 < 1, "beta1 is ", o.beta1, "; it must be in [0, 1)");
  MPS_DS_CHECK(o.beta2 >= 0 && o.beta2 < 1, "beta2 is ", o.beta2, "; it must be in [0, 1)");
  // Smaller ones are subnormal: flushed by a GPU, and their inverse is not finite.
  MPS_DS_CHECK(o.eps == 0 || (std::isfinite(o.eps) && o.eps >= 0x1p-126), "eps is ", o.eps,
               "; it must be 0, or finite and at least 1.2e-38");
  MPS_DS_CHECK(std::isfinite(o.weight_decay), "weight_decay is ", o.weight_decay,
               "; it must be finite");
  MPS_DS_CHECK(o.clip_value >= 0, "clip_value is ", o.clip_value, "; it must be >= 0");
}

std::vector<AdamOptions> unpack_adam_options(const std::vector<double>& numbers) {
  constexpr size_t kNumbers = 9;
  MPS_DS_CHECK(numbers.size() % kNumbers == 0, "options has ", numbers.size(),
               " entries; there must be ", kNumbers, " for each param group");
  std::vector<AdamOptions> groups;
  for (size_t at = 0; at < numbers.size(); at += kNumbers) {
    const double* n = &numbers[at];
    groups.push_back({n[0], n[1], n[2], n[3], n[4], n[5] != 0, n[6] != 0, n[7] != 0, n[8]});
  }
  return groups;
}

namespace {

FloatPair split(double x) {
  const float high = static_cast<float>(x);
  return {high, static_cast<float>(x - static_cast<double>(high))};
}

}  // namespace

AdamHyper adam_hyper(const AdamOptions& o, int64_t step) {
  MPS_DS_CHECK(step >= 1 && step <= UINT32_MAX, "step is ", step,
               "; it counts from 1, includes the step to come, and is below 2^32");
  const double t = static_cast<double>(step);
  const double correction1 = o.bias_correction ? 1.0 - std::pow(o.beta1, t) : 1.0;
  const double correction2 = o.bias_correction ? 1.0 - std::pow(o.beta2, t) : 1.0;
  const double decay = o.adam_w_mode ? o.lr * o.weight_decay : 0.0;
  AdamHyper h;
  h.grad_factor = split(o.maximize ? -1.0 : 1.0);
  h.l2 = split(o.adam_w_mode ? 0.0 : o.weight_decay);
  h.keep = split(1.0 - decay);
  h.beta1 = split(o.beta1);
  h.one_minus_beta1 = split(1.0 - o.beta1);
  h.beta2 = split(o.beta2);
  h.one_minus_beta2 = split(1.0 - o.beta2);
  h.rsqrt_correction2 = split(1.0 / std::sqrt(correction2));
  h.step_size = split(o.lr / correction1);
  h.eps = split(o.eps);
  h.lr = split(o.lr);
  h.weight_decay = split(o.weight_decay);
  h.inv_correction1 = split(1.0 / correction1);
  h.decay = static_cast<float>(decay);
  h.clip_value = static_cast<float>(o.clip_value);
  h.flags = (o.adam_w_mode ? ADAM_W : 0) | (o.bias_correction ? ADAM_BIAS_CORRECTION : 0) |
            (std::isfinite(o.clip_value) ? ADAM_CLIP_VALUE : 0);
  h.step = static_cast<uint32_t>(step);
  return h;
}

uint32_t AdamHypers::index(int64_t group, int64_t step) {
  const Key key{group, step};
  if (!table_.empty() && key == last_) return last_index_;  // neighbours mostly share both
  const auto [found, added] = indices_.try_emplace(key, static_cast<uint32_t>(table_.size()));
  if (added) table_.push_back(adam_hyper(groups_[static_cast<size_t>(group)], step));
  last_ = key;
  last_index_ = found->second;
  return last_index_;
}

}  // namespace mps_ds
