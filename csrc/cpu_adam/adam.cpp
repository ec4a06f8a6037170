// adam_ on the CPU: walks the tensors on PyTorch's own threads and hands pieces to the core.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include "adam_ops.h"
#include "cpu_adam/adam_random.h"
#include "cpu_adam/lists.h"
#include "grain.h"
#include "mps/kernels/adam_scalars.h"

namespace mps_ds::cpu_adam {
namespace {

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
void adam_cpu(const AdamLists& lists, AdamInput input) {
  const Tensors& params = lists.params;
  const Tensors& grads = input.grads;
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
    if (input.seed && params[i].scalar_type() == ScalarType::BFloat16) {
      run_at_random(jobs.back(), static_cast<uint64_t>(*input.seed), i);
      jobs.pop_back();
    }
    if (!lists.step_tensors.empty()) *lists.step_tensors[i].mutable_data_ptr<float>() += 1;
  }
  run_jobs(jobs);
}

STABLE_TORCH_LIBRARY_IMPL(mps_ds, CPU, m) {
  AdamOps<adam_cpu>::register_in(m);
}

}  // namespace
}  // namespace mps_ds::cpu_adam
