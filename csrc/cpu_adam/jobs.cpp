#include "cpu_adam/jobs.h"

#include <torch/csrc/stable/ops.h>

#include <algorithm>

#include "grain.h"
#include "joint_layout.h"

namespace mps_ds::cpu_adam {
namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

Storage storage_of(const Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case ScalarType::Half:
      return Storage::kFloat16;
    case ScalarType::BFloat16:
      return Storage::kBFloat16;
    default:
      return Storage::kFloat32;
  }
}

// Empty for tensors that are dense and alike.
std::vector<AdamDim> dims_of(const AdamStreamTensors& tensors) {
  const auto dense = [](const Tensor* tensor) { return !tensor || tensor->is_contiguous(); };
  if (std::all_of(tensors.begin(), tensors.end(), dense)) return {};
  AdamStreamTensors present = tensors;
  for (const Tensor*& tensor : present)
    if (!tensor) tensor = tensors[kParam];
  const auto joint = joint_dims<kAdamStreams>(present);
  if (is_flat(joint)) return {};
  std::vector<AdamDim> dims;
  for (const auto& dim : joint) dims.push_back({dim.size, dim.strides});
  return dims;
}

}  // namespace

AdamJob adam_job(const AdamStreamTensors& tensors, const AdamHyper& hyper, Arithmetic arithmetic) {
  const auto data = [&](AdamStream stream) -> void* {
    return tensors[stream] ? tensors[stream]->mutable_data_ptr() : nullptr;
  };
  AdamJob job;
  job.tensors.param = data(kParam);
  job.tensors.grad = tensors[kGrad]->const_data_ptr();
  job.tensors.exp_avg = data(kExpAvg);
  job.tensors.exp_avg_sq = data(kExpAvgSq);
  job.tensors.max_exp_avg_sq = data(kMaxExpAvgSq);
  job.tensors.param_copy = data(kParamCopy);
  job.tensors.param_type = storage_of(*tensors[kParam]);
  job.tensors.grad_type = storage_of(*tensors[kGrad]);
  job.tensors.state_type = storage_of(*tensors[kExpAvg]);
  if (tensors[kParamCopy]) job.tensors.copy_type = storage_of(*tensors[kParamCopy]);
  job.dims = dims_of(tensors);
  job.numel = tensors[kParam]->numel();
  job.hyper = hyper;
  job.arithmetic = arithmetic;
  return job;
}

void run_jobs(const std::vector<AdamJob>& jobs) {
  std::vector<int64_t> ends;  // of each job, counting the elements of all
  ends.reserve(jobs.size());
  int64_t total = 0;
  for (const AdamJob& job : jobs) ends.push_back(total += job.numel);
  if (total == 0) return;
  torch::stable::parallel_for(0, total, kGrain, [&](int64_t begin, int64_t end) {
    auto found = std::upper_bound(ends.begin(), ends.end(), begin);
    for (size_t i = static_cast<size_t>(found - ends.begin()); begin < end; ++i) {
      const AdamJob& job = jobs[i];
      const int64_t first = ends[i] - job.numel;
      const int64_t stop = std::min(end, ends[i]);
      adam_step(job.tensors, job.dims, begin - first, stop - first, job.hyper, job.arithmetic);
      begin = stop;
    }
  });
}

}  // namespace mps_ds::cpu_adam
