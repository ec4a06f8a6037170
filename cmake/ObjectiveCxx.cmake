# Objective-C++ for Metal host code.
#
# Gives the INTERFACE target `objcxx`: the flags with which a .mm file of this project compiles.
#   macOS: Apple clang with the Metal and Foundation frameworks.
#   Linux: clang with GNUstep's Foundation, GCC's Objective-C runtime and libBlocksRuntime. The
#          software Metal device adds the missing headers and must come before these libraries on
#          the link line (target `objcxx_softmetal`).
# Ownership is manual retain/release everywhere: clang cannot run ARC on GCC's runtime.

function(mps_ds_missing what fix)
  message(FATAL_ERROR "mps_ds needs ${what}, which was not found. Install it with:\n    ${fix}\n"
                      "MPS_DS_BUILD=cpu builds only what needs no Metal.")
endfunction()

add_library(objcxx INTERFACE)

if(APPLE)
  target_compile_options(objcxx INTERFACE -fno-objc-arc)
  target_link_libraries(objcxx INTERFACE "-framework Foundation" "-framework Metal")
  return()
endif()

if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang" OR CMAKE_CXX_COMPILER_VERSION VERSION_LESS 16)
  mps_ds_missing("clang++ 16 or newer (found ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION})"
                 "apt-get install clang-19    # or any clang-NN >= 16 of your release")
endif()

# GCC's Objective-C runtime lives in a folder named after the GCC version: take the newest that is whole.
file(GLOB gcc_folders "/usr/lib/gcc/*/*")
list(SORT gcc_folders COMPARE NATURAL ORDER DESCENDING)
set(OBJC_GCC_FOLDER "")
foreach(folder IN LISTS gcc_folders)
  if(EXISTS "${folder}/include/objc/objc.h" AND EXISTS "${folder}/libobjc.so")
    set(OBJC_GCC_FOLDER "${folder}")
    break()
  endif()
endforeach()
if(NOT OBJC_GCC_FOLDER)
  mps_ds_missing("GCC's Objective-C runtime (objc/objc.h and libobjc.so)" "apt-get install gobjc++")
endif()

# In a folder per architecture from Debian 13 on.
file(GLOB gnustep_folders /usr/include/GNUstep /usr/include/*/GNUstep)
find_path(GNUSTEP_INCLUDE Foundation/Foundation.h PATHS ${gnustep_folders} NO_DEFAULT_PATH)
find_library(GNUSTEP_BASE gnustep-base)
if(NOT GNUSTEP_INCLUDE OR NOT GNUSTEP_BASE)
  mps_ds_missing("GNUstep's Foundation" "apt-get install libgnustep-base-dev")
endif()
find_library(BLOCKS_RUNTIME BlocksRuntime)
find_path(BLOCKS_INCLUDE Block.h)
if(NOT BLOCKS_RUNTIME OR NOT BLOCKS_INCLUDE)
  mps_ds_missing("the blocks runtime (Block.h)" "apt-get install libblocksruntime-dev")
endif()

find_package(Threads REQUIRED)
target_compile_options(
  objcxx
  INTERFACE
    -fblocks
    "$<$<COMPILE_LANGUAGE:OBJCXX>:-fobjc-runtime=gcc;-fobjc-exceptions;-fexceptions>"
    "$<$<COMPILE_LANGUAGE:OBJCXX>:-fconstant-string-class=NSConstantString>"
    # catch (NSException*) would warn; @catch is what this project uses.
    "$<$<COMPILE_LANGUAGE:OBJCXX>:-Wno-objc-nonunified-exceptions>")
target_compile_definitions(objcxx INTERFACE _NATIVE_OBJC_EXCEPTIONS GNUSTEP GNUSTEP_BASE_LIBRARY=1
                                            GNU_RUNTIME=1)
target_include_directories(objcxx SYSTEM INTERFACE "${GNUSTEP_INCLUDE}")
# After clang's own folder: GCC's has other compiler headers (immintrin.h) beside objc/.
target_compile_options(objcxx INTERFACE "SHELL:-idirafter \"${OBJC_GCC_FOLDER}/include\"")
# The order matters: libgnustep-base exports a _NSConcreteStackBlock of its own that cannot be copied.
target_link_libraries(objcxx INTERFACE "-Wl,--no-as-needed" "${BLOCKS_RUNTIME}" "${GNUSTEP_BASE}"
                                       "${OBJC_GCC_FOLDER}/libobjc.so" Threads::Threads)
