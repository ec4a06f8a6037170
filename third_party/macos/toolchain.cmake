# Builds for macOS (arm64) on Linux: cmake -DCMAKE_TOOLCHAIN_FILE=third_party/macos/toolchain.cmake
# The SDK must have been laid out first (README.md).
get_filename_component(repository "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
set(work "${repository}/build/macos")
if(NOT EXISTS "${work}/sdk/SDKSettings.json")
  message(FATAL_ERROR "${work}/sdk is not there. Make it with:\n    PYTHONPATH=tools python -m macos sdk")
endif()

set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR arm64)
set(CMAKE_OSX_ARCHITECTURES arm64)
set(CMAKE_OSX_DEPLOYMENT_TARGET 14.0)
set(CMAKE_OSX_SYSROOT "${work}/sdk")

foreach(language C CXX OBJCXX)
  set(CMAKE_${language}_COMPILER_TARGET arm64-apple-macos14.0)
endforeach()
# Full paths: under this system's name CMake looks for compilers in the SDK only.
find_program(clang clang-19 REQUIRED NO_CMAKE_FIND_ROOT_PATH)
find_program(clangxx clang++-19 REQUIRED NO_CMAKE_FIND_ROOT_PATH)
set(CMAKE_C_COMPILER "${clang}")
set(CMAKE_CXX_COMPILER "${clangxx}")
set(CMAKE_OBJCXX_COMPILER "${clangxx}")
foreach(tool AR RANLIB STRIP INSTALL_NAME_TOOL)
  string(TOLOWER "llvm-${tool}-19" name)
  string(REPLACE "_" "-" name "${name}")
  find_program(llvm_${tool} ${name} REQUIRED NO_CMAKE_FIND_ROOT_PATH)
  set(CMAKE_${tool} "${llvm_${tool}}")
endforeach()

get_property(probing GLOBAL PROPERTY IN_TRY_COMPILE)
if(NOT probing)  # CMake's own probes pass flags that clang does not use
  set(CMAKE_COMPILE_WARNING_AS_ERROR ON)
endif()
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Debian's libc++, if installed, is configured for Linux: name the SDK's. gnu++20, because the SDK's
# math.h has no NAN in strict C++20; and, like Apple's clang, no sized deallocation.
set(headers "-nostdinc++ -isystem ${work}/sdk/usr/include/c++/v1")
set(CMAKE_CXX_FLAGS_INIT "${headers} -fno-sized-deallocation")
set(CMAKE_OBJCXX_FLAGS_INIT "${headers} -fno-sized-deallocation")
set(CMAKE_CXX_EXTENSIONS ON)
set(CMAKE_OBJCXX_EXTENSIONS ON)

# A Python extension on macOS finds Python's symbols when it is loaded, and pybind11 tells the linker
# so with `-undefined dynamic_lookup`. That would also hide misspelt symbols of PyTorch or the system:
# what comes last counts, and link.rsp allows Python's names and no others.
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT "-fuse-ld=lld")
endforeach()
set(CMAKE_CXX_STANDARD_LIBRARIES "@${work}/link.rsp")
set(CMAKE_OBJCXX_STANDARD_LIBRARIES "@${work}/link.rsp")

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(PYBIND11_USE_CROSSCOMPILING ON)
foreach(python Python Python3)  # the headers of the Python that runs the build, but for pyconfig.h
  set(${python}_INCLUDE_DIR "${work}/python" CACHE PATH "")
endforeach()
set(MPS_DS_TORCH_FOLDER "${work}/parts/torch/torch")
