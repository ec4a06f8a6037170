#include "cpu_adam/adam_random.h"

#include <algorithm>

#include "mps/kernels/philox.h"

namespace mps_ds::cpu_adam {
namespace {

constexpr int64_t kTile = 1024;

int64_t offset_of(const std::vector<AdamDim>& dims, int64_t element) {
  if (dims.empty()) return element;
  int64_t offset = 0;
  for (const AdamDim& dim : dims) {
    offset += element % dim.size * dim.strides[kParam];
    element /= dim.size;
  }
  return offset;
}

// The dims of a step whose params stand in one dense run.
std::vector<AdamDim> with_dense_param(std::vector<AdamDim> dims) {
  int64_t stride = 1;
  for (AdamDim& dim : dims) {
    dim.strides[kParam] = stride;
    stride *= dim.size;
  }
  return dims;
}

}  // namespace

void adam_step_at_random(const AdamTensors& tensors, const std::vector<AdamDim>& dims,
                         int64_t begin, int64_t end, const AdamHyper& hyper,
                         const RandomRounding& rounding) {
  auto* params = static_cast<BFloat16*>(tensors.param);
  const std::vector<AdamDim> tile_dims = with_dense_param(dims);
  float tile[kTile];
  for (int64_t first = begin; first < end; first += kTile) {
    const int64_t count = std::min(kTile, end - first);
    for (int64_t k = 0; k < count; ++k) tile[k] = to_float(params[offset_of(dims, first + k)]);
    AdamTensors unrounded = tensors;
    // Its element `first` is tile[0].
    unrounded.param = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(tile) -
                                              static_cast<uintptr_t>(first) * sizeof(float));
    unrounded.param_type = Storage::kFloat32;
    adam_step(unrounded, tile_dims, first, first + count, hyper, Arithmetic::kPlain);
    for (int64_t k = 0; k < count; ++k) {
      const auto element = static_cast<uint64_t>(first + k);
      const PhiloxBits bits =
          rounding_bits(rounding.seed, rounding.row, rounding.step, element / 8);
      const uint32_t lane = static_cast<uint32_t>(element % 8);
      params[offset_of(dims, first + k)] =
          from_float<BFloat16>(round_at_random(tile[k], rounding_lane(bits, lane)));
    }
  }
}

}  // namespace mps_ds::cpu_adam
