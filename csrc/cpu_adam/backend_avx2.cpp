// Compiled with -mavx2 -mfma -mf16c, so only what runs after usable() may be here.
#if defined(__x86_64__)
#include <cpuid.h>

#include "cpu_adam/vector_avx2.h"
//
#include "cpu_adam/vector.h"

namespace mps_ds::cpu_adam {
namespace {

bool usable() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  // These ask whether the operating system saves the registers, too.
  return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

}  // namespace

const Backend kAvx2{"avx2", &usable, &step_dense<Avx2Floats>};

}  // namespace mps_ds::cpu_adam
#endif
