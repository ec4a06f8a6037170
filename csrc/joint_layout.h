// Walking several tensors of one shape together, each by its own strides.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace mps_ds {

// Whether sizes or strides are those that were noted.
inline bool equal(const std::vector<int64_t>& noted, torch::headeronly::IntHeaderOnlyArrayRef now) {
  return noted.size() == now.size() && std::equal(noted.begin(), noted.end(), now.begin());
}

template <size_t N>
struct JointDim {
  int64_t size;
  std::array<int64_t, N> strides;  // in elements, one per tensor
};

// The dimensions of N tensors of one shape, innermost first, with size-1 dimensions dropped and
// neighbours merged where every tensor is dense across them. Elementwise work may take dimensions
// in any order: they are ordered by the first tensor's strides, so tensors that are transposed or
// channels_last alike become one dimension of stride 1.
template <size_t N>
std::vector<JointDim<N>> joint_dims(const std::array<const torch::stable::Tensor*, N>& tensors) {
  std::vector<JointDim<N>> dims;
  const auto sizes = tensors[0]->sizes();
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    JointDim<N> dim{sizes[d], {}};
    for (size_t k = 0; k < N; ++k) dim.strides[k] = tensors[k]->strides()[d];
    dims.push_back(dim);
  }
  std::sort(dims.begin(), dims.end(),
            [](const JointDim<N>& a, const JointDim<N>& b) { return a.strides < b.strides; });
  std::vector<JointDim<N>> merged;
  for (const JointDim<N>& dim : dims) {
    bool joins = !merged.empty();
    for (size_t k = 0; joins && k < N; ++k)
      joins = dim.strides[k] == merged.back().strides[k] * merged.back().size;
    if (joins) {
      merged.back().size *= dim.size;
    } else {
      merged.push_back(dim);
    }
  }
  return merged;
}

// Whether all tensors are one run of consecutive elements in the same order.
template <size_t N>
bool is_flat(const std::vector<JointDim<N>>& dims) {
  if (dims.empty()) return true;
  if (dims.size() > 1) return false;
  return std::all_of(dims[0].strides.begin(), dims[0].strides.end(),
                     [](int64_t stride) { return stride == 1; });
}

}  // namespace mps_ds
