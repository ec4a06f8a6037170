// Storage types of tensors, as kernels name them.
#pragma once

#include "checks.h"
#include "mps/kernels/storage_types.h"

namespace mps_ds::mps {

// Of a tensor that check_floating() has passed.
inline uint32_t storage_type(const Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case ScalarType::Half:
      return STORAGE_FLOAT16;
    case ScalarType::BFloat16:
      return STORAGE_BFLOAT16;
    default:
      return STORAGE_FLOAT32;
  }
}

}  // namespace mps_ds::mps
