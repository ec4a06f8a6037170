#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

namespace softmps {

// A tensor of this type cannot exist on the device.
inline void require_mps_dtype(c10::ScalarType type) {
  TORCH_CHECK_TYPE(type != c10::ScalarType::Double,
                   "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't "
                   "support float64. Please use float32 instead.");
  TORCH_CHECK_TYPE(type != c10::ScalarType::ComplexDouble, "Trying to convert ", type,
                   " to the MPS backend but it does not have support for that dtype.");
}

}  // namespace softmps
