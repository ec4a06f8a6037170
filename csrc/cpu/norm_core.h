// Norms on host memory: pointers and numbers, no torch. What the two kernels of norm.metal do, in
// their order, so bit for bit the same on a device that keeps subnormals.
#pragma once

#include <cstdint>

#include "mps/kernels/norm_tables.h"

namespace mps_ds {

// Elements of a tensor, in the order of `dims` (innermost first); none: consecutive.
struct NormElements {
  const void* data;
  uint32_t type;  // STORAGE_*
  int64_t numel;
  const TensorDim<1>* dims;
  uint32_t dim_count;
};

// Of elements [begin, end), where `begin` is a multiple of 8 * NORM_THREADS.
NormPartial norm_of_chunk(const NormElements& elements, uint32_t kind, int64_t begin, int64_t end);

NormPartial norm_of_partials(const NormPartial* partials, uint32_t kind, uint32_t begin,
                             uint32_t end);

}  // namespace mps_ds
