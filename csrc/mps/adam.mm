// The MPS backend of adam_ and of its plans.
#include <torch/csrc/stable/library.h>

#include <map>
#include <mutex>
#include <numeric>

#include "adam_lists.h"
#include "adam_source.h"
#include "mps/adam_plan.h"
#include "mps/library.h"

namespace mps_ds::mps {

Library& adam_library() {
  static Library library("adam", k_adam_source);
  return library;
}

namespace {

std::vector<int64_t> iota(size_t count) {
  std::vector<int64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

void adam_mps(const Tensors& params, const Tensors& grads, const Tensors& exp_avgs,
              const Tensors& exp_avg_sqs, const std::vector<int64_t>& steps, double lr,
              double beta1, double beta2, double eps, double weight_decay, bool adam_w_mode,
              bool bias_correction, bool maximize) {
  const std::vector<AdamOptions> groups{
      {lr, beta1, beta2, eps, weight_decay, adam_w_mode, bias_correction, maximize}};
  check_adam_options(groups[0]);
  check_length("grads", grads.size(), params.size(), "params");  // the plan checks the rest
  const std::vector<int64_t> step_of = expand_steps(steps, params.size());
  @autoreleasepool {
    AdamPlan plan(params, exp_avgs, exp_avg_sqs, std::vector<int64_t>(params.size(), 0));
    plan.step({grads, iota(params.size()), step_of, groups});
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
                  const std::vector<int64_t>& groups) {
  @autoreleasepool {
    return Plans::get().add(std::make_shared<AdamPlan>(params, exp_avgs, exp_avg_sqs, groups));
  }
}

int64_t adam_plan_step(int64_t handle, const Tensors& grads, const std::vector<int64_t>& rows,
                       const std::vector<int64_t>& steps, const std::vector<double>& options) {
  const std::shared_ptr<AdamPlan> plan = Plans::get().find(handle);
  const int64_t moved = plan->first_moved();
  if (moved >= 0) return moved;
  const std::vector<AdamOptions> groups = unpack_adam_options(options);
  const std::vector<int64_t> row_of = rows.empty() ? iota(plan->size()) : rows;
  check_length("grads", grads.size(), row_of.size(), rows.empty() ? "the plan" : "rows");
  check_length("steps", steps.size(), grads.size(), "grads");
  @autoreleasepool {
    plan->step({grads, row_of, steps, groups});
  }
  return -1;
}

void adam_plan_free(int64_t handle) {
  Plans::get().remove(handle);
}

STABLE_TORCH_LIBRARY_IMPL(mps_ds, MPS, m) {
  m.impl("adam_", TORCH_BOX(&adam_mps));
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
