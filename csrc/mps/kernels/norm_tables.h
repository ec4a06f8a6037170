// What norm.metal reads and writes besides rows (tensor_rows.h); shared with the host, and with the
// CPU, which works in the same order.
#pragma once

#include "norm_math.h"
#include "tensor_rows.h"

// Threads of a threadgroup, in both kernels: part of the result, because it is the order in which
// numbers are added. Small enough for a pipeline under register pressure.
#define NORM_THREADS 256u
#define NORM_SIMDGROUPS (NORM_THREADS / 32u)

// Function constants
#define NORM_L2 0u
#define NORM_INF 1u
#define NORM_ANY_TYPE 255u  // rows differ: each names its own

// NormSegment::writes
#define NORM_WRITES_ENTRY 1u  // norms[slot]
#define NORM_WRITES_TOTAL 2u
#define NORM_WRITES_FOUND 4u
#define NORM_WRITES_COEF 8u

// Partials [begin, end), which one threadgroup of the second kernel makes a result of.
struct NormSegment {
  uint32_t begin;
  uint32_t end;
  uint32_t slot;
  uint32_t writes;
};

struct NormJob {
  uint32_t span;  // elements of a chunk: a multiple of 8 * NORM_THREADS
  float max_norm;
  uint32_t clips;  // 0: the coefficient is 1, whatever the norm is
};

// Elements that are added as one block: what 16 bytes hold.
MPS_DS_INLINE uint32_t norm_block(uint32_t type) {
  return type == STORAGE_FLOAT32 ? 4u : 8u;
}
