// out = a * x or a * x + b * y on host memory: pointers and numbers, no torch. The arithmetic of
// scale.metal.
#pragma once

#include <cstdint>

#include "mps/kernels/scale_tables.h"

namespace mps_ds {

// One tensor's element 0 of a run, and the step from one element to the next.
struct ScaleOperand {
  void* data;
  uint32_t type;  // STORAGE_*
  int64_t stride;
};

struct ScaleRun {
  ScaleOperand x;
  ScaleOperand y;  // no data: none
  ScaleOperand out;
  float a;
  float b;
  bool checks_x;
  bool checks_y;
  bool writes;
};

// Elements [0, count) of a run. Says whether anything that is checked is infinite or NaN.
bool scale_run(const ScaleRun& run, int64_t count);

}  // namespace mps_ds
