# The CPU Adam: a core without torch (CPU_ADAM_CORE, also built by its tests) and its binding.

set(CPU_ADAM_CORE "")
foreach(name adam_core rollback backend_scalar)
  list(APPEND CPU_ADAM_CORE "${CMAKE_CURRENT_LIST_DIR}/${name}.cpp")
endforeach()
set(CPU_ADAM_BINDING "")
foreach(name jobs lists ops)
  list(APPEND CPU_ADAM_BINDING "${CMAKE_CURRENT_LIST_DIR}/${name}.cpp")
endforeach()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # Compiled for what a processor may have; chosen at run time.
  set(avx2 -mavx2 -mfma -mf16c)
  foreach(backend avx2 avx512)
    set(source "${CMAKE_CURRENT_LIST_DIR}/backend_${backend}.cpp")
    list(APPEND CPU_ADAM_CORE "${source}")
    set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS "${avx2}")
  endforeach()
  set_property(SOURCE "${CMAKE_CURRENT_LIST_DIR}/backend_avx512.cpp" APPEND
               PROPERTY COMPILE_OPTIONS -mavx512f -mavx512bw -mavx512dq -mavx512vl)
else()
  list(APPEND CPU_ADAM_CORE "${CMAKE_CURRENT_LIST_DIR}/backend_neon.cpp")
endif()
