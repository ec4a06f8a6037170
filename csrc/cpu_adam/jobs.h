// Steps over lists of tensors, on PyTorch's own threads: no second pool, no second OpenMP runtime.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <array>
#include <vector>

#include "cpu_adam/adam_core.h"

namespace mps_ds::cpu_adam {

// The step of one param.
struct AdamJob {
  AdamTensors tensors;
  std::vector<AdamDim> dims;  // empty: dense and alike
  int64_t numel;
  AdamHyper hyper;
  Arithmetic arithmetic;
};

// In the order of AdamStream; null for what is absent. On the CPU, of one shape, any strides;
// float32, float16 or bfloat16, all states of one type. The tensors must outlive the job.
using AdamStreamTensors = std::array<const torch::stable::Tensor*, kAdamStreams>;

AdamJob adam_job(const AdamStreamTensors& tensors, const AdamHyper& hyper, Arithmetic arithmetic);

// All of them, divided among the threads by elements, however they are spread over the jobs.
void run_jobs(const std::vector<AdamJob>& jobs);

}  // namespace mps_ds::cpu_adam
