# Where PyTorch is, without its CMake package (which wants every compiler that PyTorch was built with).
#
#   torch_headers   INTERFACE target: include folders only, as system headers. What uses the stable
#                   ABI (csrc/) needs no more.
#   torch_cxx       INTERFACE target: torch_headers, the C++ libraries and their C++ ABI flag, for
#                   code bound to one PyTorch release (third_party/softmps).
#   TORCH_VERSION   e.g. 2.13.0
#
# It is the one that this Python imports, or, where that is of another platform (a cross build), the
# one in MPS_DS_TORCH_FOLDER.
if(MPS_DS_TORCH_FOLDER)
  file(STRINGS "${MPS_DS_TORCH_FOLDER}/version.py" torch_facts REGEX "^__version__ = ")
  string(REGEX REPLACE ".*'([0-9.]+).*'.*" "\\1" torch_facts "${torch_facts}")
  list(APPEND torch_facts "${MPS_DS_TORCH_FOLDER}" 1)
  set(torch_failed 0)
else()
  execute_process(
    COMMAND
      "${Python3_EXECUTABLE}" -c
      "import os, torch; print(torch.__version__.split('+')[0]); print(os.path.dirname(torch.__file__)); print(int(torch._C._GLIBCXX_USE_CXX11_ABI))"
    OUTPUT_VARIABLE torch_facts
    RESULT_VARIABLE torch_failed
    OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
if(torch_failed)
  message(FATAL_ERROR "mps_ds needs PyTorch's headers to build, and ${Python3_EXECUTABLE} cannot import torch. "
                      "Install it with:\n    ${Python3_EXECUTABLE} -m pip install torch==2.13.0")
endif()
string(REPLACE "\n" ";" torch_facts "${torch_facts}")
list(GET torch_facts 0 TORCH_VERSION)
list(GET torch_facts 1 TORCH_FOLDER)
list(GET torch_facts 2 torch_cxx11_abi)
if(TORCH_VERSION VERSION_LESS 2.10)
  message(FATAL_ERROR "mps_ds needs PyTorch 2.10 or newer (its stable operator ABI), found ${TORCH_VERSION}.")
endif()

add_library(torch_headers INTERFACE)
target_include_directories(torch_headers SYSTEM
                           INTERFACE "${TORCH_FOLDER}/include" "${TORCH_FOLDER}/include/torch/csrc/api/include")

add_library(torch_cxx INTERFACE)
target_compile_definitions(torch_cxx INTERFACE _GLIBCXX_USE_CXX11_ABI=${torch_cxx11_abi})
target_link_directories(torch_cxx INTERFACE "${TORCH_FOLDER}/lib")
target_link_libraries(torch_cxx INTERFACE torch_headers torch torch_cpu torch_python c10)
