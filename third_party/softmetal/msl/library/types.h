// Scalar types.
#pragma once

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef uchar uint8_t;
typedef ushort uint16_t;
typedef uint uint32_t;
typedef ulong uint64_t;
typedef ulong size_t;
typedef long ptrdiff_t;
typedef long intptr_t;
typedef ulong uintptr_t;

#ifndef __OPENCL_CPP_VERSION__
// Native: converts implicitly both ways and every operation rounds to half, as in MSL
// (-ffloat16-excess-precision=none). F16C, and libgcc without it, keep fp16 subnormals whatever
// MXCSR says about fp32 ones.
typedef _Float16 half;
#endif

namespace metal {
#ifndef __OPENCL_CPP_VERSION__
using ::half;
#endif
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::int8_t;
using ::ptrdiff_t;
using ::size_t;
using ::uchar;
using ::uint;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::uint8_t;
using ::ulong;
using ::ushort;
}  // namespace metal
