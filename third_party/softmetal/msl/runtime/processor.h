// Whether the machine has the instructions that the library was compiled for. A library may have
// been compiled on another one.
#pragma once

namespace softmetal {

inline bool processor_suffices() {
#if defined(__x86_64__) && defined(__AVX2__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
#else
  return true;
#endif
}

}  // namespace softmetal
