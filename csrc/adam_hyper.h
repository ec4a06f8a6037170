// The options of an Adam step, and what the kernels get of them.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "mps/kernels/adam_types.h"

namespace mps_ds {

// As the user gives them: one param group.
struct AdamOptions {
  double lr;
  double beta1;
  double beta2;
  double eps;
  double weight_decay;
  bool adam_w_mode;  // decoupled weight decay
  bool bias_correction;
  bool maximize;
  double clip_value;  // bound of a gradient's magnitude; infinite: none
};

// From lr, beta1, beta2, eps, weight_decay, adam_w_mode, bias_correction, maximize, clip_value of
// each param group, one after the other.
std::vector<AdamOptions> unpack_adam_options(const std::vector<double>& numbers);

// Raises for what no Adam step can mean: negative or non-finite lr, eps; betas outside [0, 1).
void check_adam_options(const AdamOptions& options);

// `step` counts from 1 and includes the step to come.
AdamHyper adam_hyper(const AdamOptions& options, int64_t step);

// The distinct (param group, step count) pairs of one step, each computed once.
class AdamHypers {
 public:
  explicit AdamHypers(const std::vector<AdamOptions>& groups) : groups_(groups) {}
  uint32_t index(int64_t group, int64_t step);
  const std::vector<AdamHyper>& table() const { return table_; }

 private:
  using Key = std::pair<int64_t, int64_t>;
  const std::vector<AdamOptions>& groups_;
  std::map<Key, uint32_t> indices_;
  std::vector<AdamHyper> table_;
  Key last_{};
  uint32_t last_index_ = 0;
};

}  // namespace mps_ds
