// Names that MSL has without `metal::`.
#pragma once

#include "atomic.h"
#include "packed.h"

using metal::vec;

#define SM_GLOBAL_VECTORS(T) \
  using metal::T##2;         \
  using metal::T##3;         \
  using metal::T##4;
SM_GLOBAL_VECTORS(bool)
#define SM_GLOBAL_TYPES(T)    \
  SM_GLOBAL_VECTORS(T)        \
  using metal::packed_##T##2; \
  using metal::packed_##T##3; \
  using metal::packed_##T##4;
SM_GLOBAL_TYPES(char)
SM_GLOBAL_TYPES(uchar)
SM_GLOBAL_TYPES(short)
SM_GLOBAL_TYPES(ushort)
SM_GLOBAL_TYPES(int)
SM_GLOBAL_TYPES(uint)
SM_GLOBAL_TYPES(long)
SM_GLOBAL_TYPES(ulong)
SM_GLOBAL_TYPES(half)
SM_GLOBAL_TYPES(bfloat)
SM_GLOBAL_TYPES(float)
#undef SM_GLOBAL_VECTORS
#undef SM_GLOBAL_TYPES

using metal::atomic_bool;
using metal::atomic_float;
using metal::atomic_int;
using metal::atomic_uint;
using metal::atomic_ulong;

namespace metal {
using ::as_type;
}
