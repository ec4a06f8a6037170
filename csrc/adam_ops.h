// The operator adam_ in terms of one function that takes its arguments in order: each device has
// one.
#pragma once

#include <torch/csrc/stable/library.h>

#include <utility>

#include "adam_lists.h"

namespace mps_ds {

template <void (*run)(const AdamLists& lists, AdamInput input)>
struct AdamOps {
  static void adam(const Tensors& params, const Tensors& grads, const Tensors& exp_avgs,
                   const Tensors& exp_avg_sqs, const Tensors& max_exp_avg_sqs,
                   const std::vector<int64_t>& amsgrad_rows, const Tensors& copies,
                   const Tensors& step_tensors, const std::vector<int64_t>& groups,
                   const std::vector<int64_t>& steps, const std::vector<double>& options,
                   const Tensors& lr_tensors, const OptionalTensor& grad_scale,
                   const OptionalTensor& found_inf, const OptionalTensor& clip_coef,
                   const OptionalTensor& clip_value, const std::optional<int64_t>& seed) {
    const AdamLists lists{params, exp_avgs,     exp_avg_sqs, max_exp_avg_sqs,
                          copies, step_tensors, amsgrad_rows};
    const bool nothing = params.empty() && step_tensors.empty();  // then no count is needed
    run(lists, adam_input(lists, grads, groups, nothing ? std::vector<int64_t>{} : steps, options,
                          {lr_tensors, grad_scale, found_inf, clip_coef, clip_value}, seed));
  }

  template <class Library>
  static void register_in(Library& m) {
    m.impl("adam_", TORCH_BOX(&adam));
  }
};

}  // namespace mps_ds
