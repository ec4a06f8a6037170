// Compiled with -mavx512f and others, so only what runs after usable() may be here.
#if defined(__x86_64__)
#include "cpu_adam/vector_avx512.h"
//
#include "cpu_adam/vector.h"

namespace mps_ds::cpu_adam {
namespace {

bool usable() {
  return kAvx2.usable() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

}  // namespace

const Backend kAvx512{"avx512", &usable, &step_dense<Avx512Floats>};

}  // namespace mps_ds::cpu_adam
#endif
