#if defined(__aarch64__)
#include "cpu_adam/vector_neon.h"
//
#include "cpu_adam/vector.h"

namespace mps_ds::cpu_adam {

// Every 64-bit Arm has it.
const Backend kNeon{"neon", [] { return true; }, &step_dense<NeonFloats>};

}  // namespace mps_ds::cpu_adam
#endif
