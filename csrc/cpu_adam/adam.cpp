// adam_ on the CPU: walks the tensors on PyTorch's own threads and hands runs to the core.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include "adam_lists.h"
#include "cpu_adam/adam_core.h"
#include "joint_layout.h"

namespace mps_ds {
namespace {

constexpr int64_t kGrain = 16384;  // elements below which a second thread costs more than it brings

AdamPointers pointers(const AdamLists& lists, size_t i) {
  return {lists.params[i].mutable_data_ptr<float>(), lists.grads[i].const_data_ptr<float>(),
          lists.exp_avgs[i].mutable_data_ptr<float>(),
          lists.exp_avg_sqs[i].mutable_data_ptr<float>()};
}

// Runs of the innermost dimension number `begin` to `end`, in the order of an odometer.
void step_runs(AdamPointers base, const std::vector<JointDim<4>>& dims, const AdamHyper& hyper,
               int64_t begin, int64_t end) {
  const AdamStrides inner{dims[0].strides[0], dims[0].strides[1], dims[0].strides[2],
                          dims[0].strides[3]};
  for (int64_t run = begin; run < end; ++run) {
    AdamPointers at = base;
    int64_t rest = run;
    for (size_t d = 1; d < dims.size(); ++d) {
      const int64_t index = rest % dims[d].size;
      rest /= dims[d].size;
      at.param += index * dims[d].strides[0];
      at.grad += index * dims[d].strides[1];
      at.exp_avg += index * dims[d].strides[2];
      at.exp_avg_sq += index * dims[d].strides[3];
    }
    adam_run(at, inner, dims[0].size, hyper);
  }
}

void step_tensor(const AdamLists& lists, size_t i, const AdamHyper& hyper) {
  const int64_t numel = lists.params[i].numel();
  if (numel == 0) return;
  const AdamPointers base = pointers(lists, i);
  const auto dims =
      joint_dims<4>({&lists.params[i], &lists.grads[i], &lists.exp_avgs[i], &lists.exp_avg_sqs[i]});
  if (is_flat(dims)) {
    torch::stable::parallel_for(0, numel, kGrain, [&](int64_t begin, int64_t end) {
      adam_run(
          {base.param + begin, base.grad + begin, base.exp_avg + begin, base.exp_avg_sq + begin},
          {1, 1, 1, 1}, end - begin, hyper);
    });
    return;
  }
  const int64_t runs = numel / dims[0].size;
  const int64_t grain = std::max<int64_t>(1, kGrain / dims[0].size);
  torch::stable::parallel_for(0, runs, grain, [&](int64_t begin, int64_t end) {
    step_runs(base, dims, hyper, begin, end);
  });
}

// Checks everything, then writes.
void adam_groups(const AdamLists& lists, const std::vector<int64_t>& group_of,
                 const std::vector<int64_t>& steps, const std::vector<AdamOptions>& groups) {
  check_adam_lists(lists, DeviceType::CPU);
  const size_t count = lists.params.size();
  const std::vector<int64_t> step_of = expand_steps(steps, count);
  check_length("groups", group_of.size(), count, "params");

  AdamHypers hypers(groups);
  std::vector<uint32_t> hyper_of(count);
  std::vector<Extent> extents;
  for (size_t i = 0; i < count; ++i) {
    hyper_of[i] = hypers.index(group_of[i], step_of[i]);
    if (lists.params[i].numel() == 0) continue;
    const auto add = [&](const Tensor& tensor, const char* list, Access access) {
      // One address space: byte offsets from 0 tell all storages apart.
      extents.push_back(extent_of(tensor, {list, i}, access, nullptr,
                                  reinterpret_cast<int64_t>(tensor.const_data_ptr())));
    };
    add(lists.params[i], "params", Access::kWrite);
    add(lists.grads[i], "grads", Access::kRead);
    add(lists.exp_avgs[i], "exp_avgs", Access::kWrite);
    add(lists.exp_avg_sqs[i], "exp_avg_sqs", Access::kWrite);
  }
  check_disjoint(std::move(extents));
  for (size_t i = 0; i < count; ++i) step_tensor(lists, i, hypers.table()[hyper_of[i]]);
}

void adam_cpu(const Tensors& params, const Tensors& grads, const Tensors& exp_avgs,
              const Tensors& exp_avg_sqs, const std::vector<int64_t>& steps, double lr,
              double beta1, double beta2, double eps, double weight_decay, bool adam_w_mode,
              bool bias_correction, bool maximize) {
  const std::vector<AdamOptions> groups{
      {lr, beta1, beta2, eps, weight_decay, adam_w_mode, bias_correction, maximize}};
  check_adam_options(groups[0]);
  adam_groups({params, grads, exp_avgs, exp_avg_sqs}, std::vector<int64_t>(params.size(), 0), steps,
              groups);
}

void adam_groups_cpu(const Tensors& params, const Tensors& grads, const Tensors& exp_avgs,
                     const Tensors& exp_avg_sqs, const std::vector<int64_t>& groups,
                     const std::vector<int64_t>& steps, const std::vector<double>& options) {
  adam_groups({params, grads, exp_avgs, exp_avg_sqs}, groups, steps, unpack_adam_options(options));
}

STABLE_TORCH_LIBRARY_IMPL(mps_ds, CPU, m) {
  m.impl("adam_", TORCH_BOX(&adam_cpu));
  m.impl("_adam_groups_", TORCH_BOX(&adam_groups_cpu));
}

}  // namespace
}  // namespace mps_ds
