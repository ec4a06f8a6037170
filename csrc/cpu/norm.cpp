// The CPU backend of norms and overflow checks: chunks on PyTorch's own threads.
#include <torch/csrc/stable/ops.h>

#include "cpu/norm_core.h"
#include "joint_layout.h"
#include "mps/storage.h"
#include "norm_ops.h"

namespace mps_ds {
namespace {

constexpr int64_t kGrain = 4;  // chunks below which a second thread costs more than it brings

class Elements {
 public:
  explicit Elements(const Tensors& tensors) {
    for (const Tensor& tensor : tensors) {
      const auto dims = joint_dims<1>({&tensor});
      NormElements entry{tensor.numel() ? tensor.const_data_ptr() : nullptr,
                         mps::storage_type(tensor), tensor.numel(), nullptr, 0};
      if (!is_flat(dims)) {
        entry.dim_count = static_cast<uint32_t>(dims.size());
        for (const auto& dim : dims)
          dims_.push_back({static_cast<uint64_t>(dim.size), {dim.strides[0]}});
      }
      elements_.push_back(entry);
    }
    size_t at = 0;  // the dims have stopped moving
    for (NormElements& entry : elements_) {
      entry.dims = dims_.data() + at;
      at += entry.dim_count;
    }
  }
  const NormElements& operator[](size_t i) const { return elements_[i]; }

 private:
  std::vector<NormElements> elements_;
  std::vector<TensorDim<1>> dims_;
};

float* output(const std::optional<Tensor>& tensor) {
  return tensor ? tensor->mutable_data_ptr<float>() : nullptr;
}

NormResults compute_cpu(const NormRequest& request) {
  check_norm(request, DeviceType::CPU);
  const NormWork work = norm_work(request);
  const NormResults results = new_norm_results(request);
  const uint32_t kind = norm_kind(request);
  const Elements elements(request.tensors);
  std::vector<NormPartial> partials(work.chunks.size());
  torch::stable::parallel_for(
      0, static_cast<int64_t>(partials.size()), kGrain, [&](int64_t from, int64_t to) {
        for (int64_t i = from; i < to; ++i) {
          const RowChunk chunk = work.chunks[static_cast<size_t>(i)];
          const int64_t begin = int64_t{chunk.index} * work.job.span;
          const int64_t end = std::min(begin + work.job.span, elements[chunk.row].numel);
          partials[static_cast<size_t>(i)] = norm_of_chunk(elements[chunk.row], kind, begin, end);
        }
      });

  const float divisor = request.divisor ? *request.divisor->const_data_ptr<float>() : 1.0f;
  for (const NormSegment& segment : work.segments) {
    const NormPartial sum = norm_of_partials(partials.data(), kind, segment.begin, segment.end);
    const float norm = kind == NORM_L2 ? l2_norm(sum, divisor) : inf_norm(sum.high, divisor);
    if (segment.writes & NORM_WRITES_ENTRY) output(results.entries)[segment.slot] = norm;
    if (segment.writes & NORM_WRITES_TOTAL) *output(results.total) = norm;
    if (segment.writes & NORM_WRITES_FOUND) *output(results.found_inf) = sum.non_finite ? 1 : 0;
    if (segment.writes & NORM_WRITES_COEF)
      *output(results.clip_coef) = work.job.clips ? clip_coefficient(norm, work.job.max_norm) : 1;
  }
  return results;
}

STABLE_TORCH_LIBRARY_IMPL(mps_ds, CPU, m) {
  NormOps<compute_cpu>::register_in(m);
}

}  // namespace
}  // namespace mps_ds
