#include "mps/tensor_list.h"

#include <cstring>

namespace mps_ds::mps {

static_assert(sizeof(TensorRow<1>) == 32 && sizeof(TensorRow<3>) == 48 &&
                  sizeof(TensorDim<1>) == 16 && sizeof(TensorDim<3>) == 32 && sizeof(RowChunk) == 8,
              "the layouts that kernels read");

uint64_t RowBuffers::add(const Tensor& tensor, Access access) {
  if (tensor.numel() == 0) return 0;
  const Place place = place_of(tensor);
  if (access == Access::kWrite) return written_.add(place);
  return written_.contains(place.buffer) ? written_.address(place) : read_.add(place);
}

void RowBuffers::declare(id<MTLComputeCommandEncoder> encoder) const {
  written_.declare(encoder);
  read_.declare(encoder);
}

size_t Upload::append(const void* bytes, size_t length, size_t room) {
  const size_t at = (bytes_.size() + 15) / 16 * 16;
  bytes_.resize(at + room);
  if (length > 0) std::memcpy(bytes_.data() + at, bytes, length);
  return at;
}

}  // namespace mps_ds::mps
