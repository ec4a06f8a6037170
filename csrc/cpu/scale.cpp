// The CPU backend of scaling: runs of elements on PyTorch's own threads.
#include <torch/csrc/stable/ops.h>

#include <array>
#include <atomic>
#include <cstring>

#include "cpu/scale_core.h"
#include "grain.h"
#include "joint_layout.h"
#include "mps/storage.h"
#include "scale_ops.h"

namespace mps_ds {
namespace {

using Dims = std::vector<JointDim<SCALE_OPERANDS>>;

// One address space: byte offsets from 0 tell all storages apart.
std::pair<const void*, int64_t> locate(const Tensor& tensor) {
  return {nullptr, reinterpret_cast<int64_t>(tensor.const_data_ptr())};
}

void advance(ScaleOperand& operand, int64_t elements) {
  const int64_t size = operand.type == STORAGE_FLOAT32 ? 4 : 2;
  if (operand.data) operand.data = static_cast<char*>(operand.data) + elements * size;
}

ScaleRun advanced(ScaleRun run, const std::array<int64_t, SCALE_OPERANDS>& elements) {
  advance(run.x, elements[SCALE_X]);
  advance(run.y, elements[SCALE_Y]);
  advance(run.out, elements[SCALE_OUT]);
  return run;
}

// Runs of the innermost dimension number `begin` to `end`, in the order of an odometer.
bool strided_runs(const ScaleRun& base, const Dims& dims, int64_t begin, int64_t end) {
  bool bad = false;
  for (int64_t number = begin; number < end; ++number) {
    std::array<int64_t, SCALE_OPERANDS> offset{};
    int64_t rest = number;
    for (size_t d = 1; d < dims.size(); ++d) {
      for (size_t k = 0; k < offset.size(); ++k)
        offset[k] += rest % dims[d].size * dims[d].strides[k];
      rest /= dims[d].size;
    }
    bad = scale_run(advanced(base, offset), dims[0].size) || bad;
  }
  return bad;
}

bool scale_tensor(ScaleRun run, const Dims& dims, int64_t numel) {
  std::atomic<bool> bad{false};
  if (is_flat(dims)) {
    run.x.stride = run.y.stride = run.out.stride = 1;
    torch::stable::parallel_for(0, numel, kGrain, [&](int64_t begin, int64_t end) {
      if (scale_run(advanced(run, {begin, begin, begin}), end - begin)) bad = true;
    });
    return bad;
  }
  run.x.stride = dims[0].strides[SCALE_X];
  run.y.stride = dims[0].strides[SCALE_Y];
  run.out.stride = dims[0].strides[SCALE_OUT];
  const int64_t grain = std::max<int64_t>(1, kGrain / dims[0].size);
  torch::stable::parallel_for(0, numel / dims[0].size, grain, [&](int64_t begin, int64_t end) {
    if (strided_runs(run, dims, begin, end)) bad = true;
  });
  return bad;
}

void run_cpu(const ScaleRequest& request) {
  check_scale(request, DeviceType::CPU, locate);
  const float a =
      request.a_tensor ? *request.a_tensor->const_data_ptr<float>() : static_cast<float>(request.a);
  const bool writes = !request.in_place() || a != 1.0f;
  if (!writes && !request.checks_x) return;
  bool bad = false;
  for (size_t i = 0; i < request.x.size(); ++i) {
    const int64_t numel = request.x[i].numel();
    if (numel == 0) continue;
    const Tensor& y = request.y ? (*request.y)[i] : request.x[i];
    const auto operand = [](const Tensor& tensor) {
      return ScaleOperand{tensor.mutable_data_ptr(), mps::storage_type(tensor), 1};
    };
    ScaleRun run{operand(request.x[i]),
                 {},
                 operand(request.out[i]),
                 a,
                 static_cast<float>(request.b),
                 request.checks_x,
                 request.checks_y,
                 writes};
    if (request.y) run.y = operand(y);
    const auto dims = joint_dims<SCALE_OPERANDS>({&request.x[i], &y, &request.out[i]});
    bad = scale_tensor(run, dims, numel) || bad;
  }
  if (!bad || !request.found_inf) return;
  const uint32_t bits = found_bits(request);
  std::memcpy(request.found_inf->mutable_data_ptr(), &bits, sizeof(bits));
}

STABLE_TORCH_LIBRARY_IMPL(mps_ds, CPU, m) {
  ScaleOps<run_cpu>::register_in(m);
}

}  // namespace
}  // namespace mps_ds
