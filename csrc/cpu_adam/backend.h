// What a backend gives to adam_core.cpp.
#pragma once

#include "cpu_adam/adam_core.h"

namespace mps_ds::cpu_adam {

struct Backend {
  const char* name;
  bool (*usable)();  // whether this processor has the instructions
  // Elements [begin, end) of dense tensors.
  void (*step)(const AdamTensors& tensors, int64_t begin, int64_t end, const AdamHyper& hyper,
               Arithmetic arithmetic);
};

#if defined(__x86_64__)
extern const Backend kAvx512;
extern const Backend kAvx2;
#elif defined(__aarch64__)
extern const Backend kNeon;
#endif
extern const Backend kScalar;

}  // namespace mps_ds::cpu_adam
