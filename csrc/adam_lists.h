// The tensors of an Adam step and their checks, shared by its backends.
#pragma once

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "adam_hyper.h"
#include "checks.h"

namespace mps_ds {

// What a step writes: one entry for each param. Empty where they are not used: max_exp_avg_sqs,
// copies, step_tensors.
struct AdamLists {
  Tensors params;
  Tensors exp_avgs;
  Tensors exp_avg_sqs;
  Tensors max_exp_avg_sqs;  // amsgrad
  Tensors copies;           // take the new params in 16 bits
  Tensors step_tensors;     // step counts on the device, one element each
  // The params that max_exp_avg_sqs belong to, ascending; empty: to all.
  std::vector<int64_t> amsgrad_rows = {};

  size_t size() const { return params.size(); }
};

// A list's name and its entry for params[i], or null.
struct AdamOperand {
  const char* list;
  const Tensor* tensor;
};

// Param, states and copy of row i, which share a shape; in the order of ADAM_PARAM and its
// followers, without the gradient.
constexpr size_t kAdamOperands = 5;
std::array<AdamOperand, kAdamOperands> adam_operands(const AdamLists& lists, size_t i);

// Equal lengths; dense tensors of the types that a step takes, on `device`; shapes as the params'.
void check_adam_lists(const AdamLists& lists, DeviceType device);

// The gradient grads[k] of params[i].
void check_adam_grad(const Tensor& grad, size_t k, const AdamLists& lists, size_t i);

using OptionalTensor = std::optional<Tensor>;

// Numbers that may be tensors of one element, on the params' device (read there) or on the CPU.
struct AdamScalars {
  Tensors lrs;  // empty, or one for each param group
  OptionalTensor grad_scale;
  OptionalTensor found_inf;
  OptionalTensor clip_coef;
  OptionalTensor clip_value;
};

// Those that are given, by name.
std::vector<std::pair<const Tensor*, ArgumentName>> named_scalars(const AdamScalars& scalars);

void check_adam_scalars(const AdamScalars& scalars, size_t groups, DeviceType device);

// What a step gets from scalars that are on the CPU.
struct AdamFactors {
  float grad_scale = 1;
  float clip_coef = 1;
  bool skip = false;  // found_inf
};

// Reads those that are on the CPU, removes them from `scalars`, and puts lr and clip_value into
// `groups`. Those that are left are on the device.
AdamFactors take_cpu_scalars(AdamScalars& scalars, std::vector<AdamOptions>& groups);

// A step: grads[k] belongs to params[rows[k]] and takes it to step count steps[k].
struct AdamInput {
  Tensors grads;
  std::vector<int64_t> rows;
  std::vector<int64_t> group_of;  // of each param
  std::vector<int64_t> steps;     // empty with step_tensors
  std::vector<AdamOptions> groups;
  AdamScalars scalars;
  std::optional<int64_t> seed;  // of the random rounding of bfloat16 params, where it is wanted
  bool steps_changed = false;   // somebody else has written step_tensors since the last step
};

// The arguments of adam_: a gradient for each param; no `groups` mean one; one step count may stand
// for all. Checks lengths, and what `options` are numbers of.
AdamInput adam_input(const AdamLists& lists, const Tensors& grads,
                     const std::vector<int64_t>& groups, const std::vector<int64_t>& steps,
                     const std::vector<double>& options, AdamScalars scalars,
                     std::optional<int64_t> seed);

// 0, 1, ...
std::vector<int64_t> iota(size_t count);

}  // namespace mps_ds
