# The CPU Adam: a core without torch (CPU_ADAM_CORE, also built by its tests) and its binding.

set(CPU_ADAM_CORE cpu_adam/adam_core.cpp cpu_adam/rollback.cpp cpu_adam/backend_scalar.cpp)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # Compiled for what the processor may have; chosen at run time.
  list(APPEND CPU_ADAM_CORE cpu_adam/backend_avx2.cpp cpu_adam/backend_avx512.cpp)
  set(avx2 -mavx2 -mfma -mf16c)
  set_source_files_properties(cpu_adam/backend_avx2.cpp PROPERTIES COMPILE_OPTIONS "${avx2}")
  set_source_files_properties(
    cpu_adam/backend_avx512.cpp PROPERTIES COMPILE_OPTIONS
    "${avx2};-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl")
else()
  list(APPEND CPU_ADAM_CORE cpu_adam/backend_neon.cpp)
endif()

set(CPU_ADAM_BINDING cpu_adam/jobs.cpp cpu_adam/lists.cpp cpu_adam/ops.cpp)
