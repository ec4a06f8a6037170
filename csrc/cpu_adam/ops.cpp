// The operators of the CPU Adam. Python's side is mps_ds/ops/cpu_adam.py.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <cmath>

#include "cpu_adam/lists.h"
#include "mps/kernels/adam_scalars.h"

namespace mps_ds::cpu_adam {
namespace {

struct Step {
  AdamLists lists;
  AdamInput input;
};

// Checks all but the values of the options.
Step checked(AdamLists lists, const Tensors& grads, const std::vector<int64_t>& groups,
             const std::vector<int64_t>& steps, const std::vector<double>& options) {
  AdamInput input = adam_input(lists, grads, groups, steps, options, {}, {});
  check_adam_lists(lists, DeviceType::CPU);
  for (size_t i = 0; i < grads.size(); ++i) check_adam_grad(grads[i], i, lists, i);
  for (const AdamOptions& group : input.groups) check_adam_options(group);
  check_apart(lists, grads);
  return {std::move(lists), std::move(input)};
}

void cpu_adam(const Tensors& params, const Tensors& grads, const Tensors& exp_avgs,
              const Tensors& exp_avg_sqs, const Tensors& max_exp_avg_sqs, const Tensors& copies,
              const std::vector<int64_t>& groups, const std::vector<int64_t>& steps,
              const std::vector<double>& options, double grad_scale) {
  MPS_DS_CHECK(std::isfinite(grad_scale) && grad_scale > 0, "grad_scale is ", grad_scale,
               "; it must be finite and > 0");
  const auto [lists, input] = checked({params, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, copies, {}},
                                      grads, groups, steps, options);
  AdamHypers hypers(input.groups);
  std::vector<uint32_t> hyper_of(params.size());
  for (size_t i = 0; i < params.size(); ++i)
    hyper_of[i] = hypers.index(input.group_of[i], input.steps[i]);

  std::vector<AdamJob> jobs;
  jobs.reserve(params.size());
  for (size_t i = 0; i < params.size(); ++i) {
    const AdamHyper hyper =
        adam_with_factors(hypers.table()[hyper_of[i]], static_cast<float>(grad_scale), 1.0f);
    jobs.push_back(adam_job(streams_of(lists, i, grads[i]), hyper, Arithmetic::kPlain));
  }
  run_jobs(jobs);
}

void cpu_adam_rollback(const Tensor& param, const Tensor& grad, const Tensor& exp_avg,
                       const Tensor& exp_avg_sq, int64_t step, const std::vector<double>& options) {
  const auto [lists, input] =
      checked({{param}, {exp_avg}, {exp_avg_sq}, {}, {}, {}}, {grad}, {}, {step}, options);
  const AdamOptions& group = input.groups[0];
  MPS_DS_CHECK(group.beta1 > 0 && group.beta2 > 0, "betas are ", group.beta1, " and ", group.beta2,
               "; with 0 the states before a step are lost, and it cannot be undone");
  const double decay = group.adam_w_mode ? group.lr * group.weight_decay : 0;
  MPS_DS_CHECK(decay != 1, "lr * weight_decay is 1: the params before the step are lost");
  const AdamJob job =
      adam_job(streams_of(lists, 0, grad), adam_hyper(group, step), Arithmetic::kPlain);
  MPS_DS_CHECK(job.dims.empty(), "a step can be undone where all tensors are laid out alike");
  torch::stable::parallel_for(0, job.numel, 4096, [&](int64_t begin, int64_t end) {
    adam_rollback(job.tensors, begin, end, job.hyper);
  });
}

// Calls that name no device (empty lists), and those on another one.
void cpu_adam_elsewhere(const Tensors& params, const Tensors& grads, const Tensors& exp_avgs,
                        const Tensors& exp_avg_sqs, const Tensors& max_exp_avg_sqs,
                        const Tensors& copies, const std::vector<int64_t>& groups,
                        const std::vector<int64_t>& steps, const std::vector<double>& options,
                        double) {
  checked({params, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, copies, {}}, grads, groups, steps,
          options);
}

void cpu_adam_rollback_elsewhere(const Tensor& param, const Tensor& grad, const Tensor& exp_avg,
                                 const Tensor& exp_avg_sq, int64_t step,
                                 const std::vector<double>& options) {
  checked({{param}, {exp_avg}, {exp_avg_sq}, {}, {}, {}}, {grad}, {}, {step}, options);
}

// The backend in use, then the others that this processor can run.
std::string backends() {
  std::string names = adam_backend();
  for (const std::string& name : adam_backends())
    if (name != adam_backend()) names += " " + name;
  return names;
}

STABLE_TORCH_LIBRARY_FRAGMENT(mps_ds, m) {
  // One Adam or AdamW step on host memory over params of any number of groups; `options` as in
  // adam_. Gradients are divided by grad_scale. copies[i], if any, gets params[i] in 16 bits.
  m.def(
      "cpu_adam_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, "
      "Tensor(c!)[] exp_avg_sqs, Tensor(d!)[] max_exp_avg_sqs, Tensor(e!)[] copies, "
      "int[] groups, int[] steps, float[] options, float grad_scale) -> ()");

  // Undoes step number `step`, given the gradient that it was given.
  m.def(
      "cpu_adam_rollback_(Tensor(a!) param, Tensor grad, Tensor(b!) exp_avg, "
      "Tensor(c!) exp_avg_sq, int step, float[] options) -> ()");

  m.def("_cpu_adam_backends() -> str");
}

STABLE_TORCH_LIBRARY_IMPL(mps_ds, CPU, m) {
  m.impl("cpu_adam_", TORCH_BOX(&cpu_adam));
  m.impl("cpu_adam_rollback_", TORCH_BOX(&cpu_adam_rollback));
}

STABLE_TORCH_LIBRARY_IMPL(mps_ds, CompositeExplicitAutograd, m) {
  m.impl("cpu_adam_", TORCH_BOX(&cpu_adam_elsewhere));
  m.impl("cpu_adam_rollback_", TORCH_BOX(&cpu_adam_rollback_elsewhere));
  m.impl("_cpu_adam_backends", TORCH_BOX(&backends));
}

}  // namespace
}  // namespace mps_ds::cpu_adam
