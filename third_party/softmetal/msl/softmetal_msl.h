// The Metal Shading Language for clang: what a rewritten .metal file (see ../mslc) is compiled
// against. C++14, as MSL before version 4 is. No system header is included, so that the names of
// MSL (uint, exp, device, ...) meet nothing of libc.
#pragma once
#pragma clang system_header

// Alignment is checked where a kernel passes an object to these functions; inside, once more would
// keep vectors in memory.
#pragma clang attribute push(__attribute__((no_sanitize("alignment"))), apply_to = function)

#include "library/array.h"
#include "library/atomic.h"
#include "library/barrier.h"
#include "library/geometric.h"
#include "library/global_names.h"
#include "library/integer.h"
#include "library/limits.h"
#include "library/logging.h"
#include "library/math.h"
#include "library/metal_internals.h"
#include "library/pack.h"
#include "library/packed.h"
#include "library/quadgroup.h"
#include "library/relational.h"
#include "library/simdgroup.h"
#include "library/simdgroup_matrix.h"
#include "library/traits.h"
#include "runtime/checks.h"
#include "runtime/processor.h"
#include "runtime/trampoline.h"
#include "softmetal_macros.h"

#pragma clang attribute pop
