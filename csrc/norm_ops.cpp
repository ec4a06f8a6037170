// Norms of nothing, and of tensors on a device that has no kernel.
#include "norm_ops.h"

#include <torch/csrc/stable/ops.h>

namespace mps_ds {
namespace {

Tensor filled(const std::vector<int64_t>& size, double value) {
  Tensor tensor = torch::stable::empty(size, ScalarType::Float);
  return torch::stable::fill_(tensor, value);
}

NormResults compute_elsewhere(const NormRequest& request) {
  if (!request.tensors.empty()) {
    const DeviceType device = request.tensors[0].device().type();
    const bool known = device == DeviceType::MPS || device == DeviceType::CPU;
    check_norm(request, known ? device : DeviceType::MPS);  // names what is wrong
    MPS_DS_CHECK(false, "norms have no kernel for ", device_name(device),
                 " in this build (MPS_DS_BUILD=cpu builds none for mps)");
  }
  check_norm(request, DeviceType::CPU);
  // No tensors, so no device: the CPU.
  const NormJob job = norm_work(request).job;
  const float coef = job.clips ? clip_coefficient(0.0f, job.max_norm) : 1.0f;
  return {filled({request.entries}, 0), filled({}, 0), filled({}, 0), filled({}, coef)};
}

STABLE_TORCH_LIBRARY_IMPL(mps_ds, CompositeExplicitAutograd, m) {
  NormOps<compute_elsewhere>::register_in(m);
}

}  // namespace
}  // namespace mps_ds
