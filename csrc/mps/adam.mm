// The MPS backend of adam_ and of its plans.
#include <torch/csrc/stable/library.h>

#include <map>
#include <mutex>

#include "adam_ops.h"
#include "adam_source.h"
#include "mps/adam_step.h"
#include "mps/library.h"

namespace mps_ds::mps {

Library& adam_library() {
  static Library* library = new Library("adam", k_adam_source);
  return *library;
}

namespace {

void adam_mps(const AdamLists& lists, AdamInput input) {
  @autoreleasepool {
    AdamPlan plan(lists, input.group_of);
    AdamStep(plan, std::move(input)).encode();
  }
}

// Plans by their handles: the stable ABI has no custom classes.
class Plans {
 public:
  static Plans& get() {
    static Plans* plans = new Plans;  // leaked: a plan may be freed while the process ends
    return *plans;
  }
  int64_t add(std::shared_ptr<AdamPlan> plan) {
    std::lock_guard<std::mutex> lock(mutex_);
    plans_[++last_] = std::move(plan);
    return last_;
  }
  std::shared_ptr<AdamPlan> find(int64_t handle) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = plans_.find(handle);
    MPS_DS_CHECK(found != plans_.end(), "there is no Adam plan ", handle, "; was it freed?");
    return found->second;
  }
  void remove(int64_t handle) {
    std::shared_ptr<AdamPlan> last;  // its tensors go after the lock
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = plans_.find(handle);
    if (found == plans_.end()) return;
    last = std::move(found->second);
    plans_.erase(found);
  }

 private:
  std::mutex mutex_;
  std::map<int64_t, std::shared_ptr<AdamPlan>> plans_;
  int64_t last_ = 0;
};

int64_t adam_plan(const Tensors& params, const Tensors& exp_avgs, const Tensors& exp_avg_sqs,
                  const Tensors& max_exp_avg_sqs, const std::vector<int64_t>& amsgrad_rows,
                  const Tensors& copies, const Tensors& step_tensors,
                  const std::vector<int64_t>& groups) {
  @autoreleasepool {
    return Plans::get().add(
        std::make_shared<AdamPlan>(AdamLists{params, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, copies,
                                             step_tensors, amsgrad_rows},
                                   groups));
  }
}

int64_t adam_plan_step(int64_t handle, const Tensors& grads, const std::vector<int64_t>& rows,
                       const std::vector<int64_t>& steps, const std::vector<double>& options,
                       const Tensors& lr_tensors, const OptionalTensor& grad_scale,
                       const OptionalTensor& found_inf, const OptionalTensor& clip_coef,
                       const OptionalTensor& clip_value, const std::optional<int64_t>& seed,
                       bool steps_changed) {
  const std::shared_ptr<AdamPlan> plan = Plans::get().find(handle);
  const int64_t moved = plan->first_moved();
  if (moved >= 0) return moved;
  AdamInput input{grads,
                  rows.empty() ? iota(plan->size()) : rows,
                  {},
                  steps,
                  unpack_adam_options(options),
                  {lr_tensors, grad_scale, found_inf, clip_coef, clip_value},
                  seed,
                  steps_changed};
  check_length("grads", grads.size(), input.rows.size(), rows.empty() ? "the plan" : "rows");
  if (plan->lists().step_tensors.empty())
    check_length("steps", steps.size(), grads.size(), "grads");
  @autoreleasepool {
    AdamStep(*plan, std::move(input)).encode();
  }
  return -1;
}

void adam_plan_free(int64_t handle) {
  @autoreleasepool {
    Plans::get().remove(handle);
  }
}

STABLE_TORCH_LIBRARY_IMPL(mps_ds, MPS, m) {
  AdamOps<adam_mps>::register_in(m);
  m.impl("_adam_plan", TORCH_BOX(&adam_plan));
  m.impl("_adam_plan_step", TORCH_BOX(&adam_plan_step));
}

STABLE_TORCH_LIBRARY_IMPL(mps_ds, CompositeExplicitAutograd, m) {
  // Gradients elsewhere: the params have moved too, which the plan says, or it names the gradient.
  m.impl("_adam_plan_step", TORCH_BOX(&adam_plan_step));
  m.impl("_adam_plan_free", TORCH_BOX(&adam_plan_free));
}

}  // namespace
}  // namespace mps_ds::mps
