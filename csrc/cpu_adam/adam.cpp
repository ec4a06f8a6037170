// adam_ on the CPU: walks the tensors on PyTorch's own threads and hands pieces to the core.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include "cpu_adam/adam_random.h"
#include "cpu_adam/lists.h"
#include "mps/kernels/adam_scalars.h"

namespace mps_ds::cpu_adam {
namespace {

constexpr int64_t kGrain = 16384;  // elements below which a second thread costs more than it brings

void run_at_random(const AdamJob& job, uint64_t seed, size_t row) {
  const RandomRounding rounding{seed, static_cast<uint32_t>(row), job.hyper.step};
  torch::stable::parallel_for(0, job.numel, kGrain, [&](int64_t begin, int64_t end) {
    adam_step_at_random(job.tensors, job.dims, begin, end, job.hyper, rounding);
  });
}

// The step count that this step brings params[i] to.
int64_t count_of(const AdamLists& lists, const AdamInput& input, size_t i) {
  if (lists.step_tensors.empty()) return input.steps[i];
  return static_cast<int64_t>(*lists.step_tensors[i].const_data_ptr<float>()) + 1;
}

// Checks everything, then writes.
void adam_cpu(const Tensors& params, const Tensors& grads, const Tensors& exp_avgs,
              const Tensors& exp_avg_sqs, const Tensors& max_exp_avg_sqs,
              const std::vector<int64_t>& amsgrad_rows, const Tensors& copies,
              const Tensors& step_tensors, const std::vector<int64_t>& groups,
              const std::vector<int64_t>& steps, const std::vector<double>& options,
              const Tensors& lr_tensors, const OptionalTensor& grad_scale,
              const OptionalTensor& found_inf, const OptionalTensor& clip_coef,
              const OptionalTensor& clip_value, const std::optional<int64_t>& seed) {
  const AdamLists lists{params, exp_avgs,     exp_avg_sqs, max_exp_avg_sqs,
                        copies, step_tensors, amsgrad_rows};
  AdamInput input = adam_input(lists, grads, groups, steps, options,
                               {lr_tensors, grad_scale, found_inf, clip_coef, clip_value}, seed);
  check_adam_lists(lists, DeviceType::CPU);
  for (size_t i = 0; i < params.size(); ++i) check_adam_grad(grads[i], i, lists, i);
  check_adam_scalars(input.scalars, input.groups.size(), DeviceType::CPU);
  const AdamFactors factors = take_cpu_scalars(input.scalars, input.groups);
  for (const AdamOptions& group : input.groups) check_adam_options(group);
  check_apart(lists, grads);

  AdamHypers hypers(input.groups);
  std::vector<uint32_t> hyper_of(params.size());
  for (size_t i = 0; i < params.size(); ++i)
    hyper_of[i] = hypers.index(input.group_of[i], count_of(lists, input, i));
  if (factors.skip) return;
  std::vector<AdamJob> jobs;
  for (size_t i = 0; i < params.size(); ++i) {
    // As on the GPU: 16-bit params round away more than pairs would save.
    const bool exact = params[i].scalar_type() == ScalarType::Float;
    const AdamHyper hyper =
        adam_with_factors(hypers.table()[hyper_of[i]], factors.grad_scale, factors.clip_coef);
    jobs.push_back(adam_job(streams_of(lists, i, grads[i]), hyper,
                            exact ? Arithmetic::kPairs : Arithmetic::kPlain));
    if (seed && params[i].scalar_type() == ScalarType::BFloat16) {
      run_at_random(jobs.back(), static_cast<uint64_t>(*seed), i);
      jobs.pop_back();
    }
    if (!step_tensors.empty()) *step_tensors[i].mutable_data_ptr<float>() += 1;
  }
  run_jobs(jobs);
}

STABLE_TORCH_LIBRARY_IMPL(mps_ds, CPU, m) {
  m.impl("adam_", TORCH_BOX(&adam_cpu));
}

}  // namespace
}  // namespace mps_ds::cpu_adam
