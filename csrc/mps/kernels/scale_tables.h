// What scale.metal reads besides rows (tensor_rows.h), and its arithmetic; shared with the host and
// the CPU.
#pragma once

#include "float_pair.h"
#include "storage_types.h"
#include "tensor_rows.h"

// Operands of a row.
#define SCALE_X 0
#define SCALE_Y 1
#define SCALE_OUT 2
#define SCALE_OPERANDS 3

// Elements of one threadgroup's work.
#define SCALE_CHUNK 8192
// Few, with some turns each: measured (benchmarks/gpu/NOTES.md). The kernel is right for any
// number.
#define SCALE_THREADS 128

#define SCALE_ANY_TYPE 255u  // function constants: rows differ, each names its own types

// Of one dispatch.
struct ScaleJob {
  float b;
  uint32_t found_bits;  // what marks that something is infinite or NaN: 1 in the flag's type
};

// What is stored, in fp32: a * x, or a * x + b * y.
MPS_DS_INLINE float scaled(float a, float x) {
  return a * x;
}

MPS_DS_INLINE float scaled_sum(float a, float x, float b, float y) {
  return MPS_DS_FMA(a, x, b * y);
}

MPS_DS_INLINE bool not_finite(float x) {
  return (MPS_DS_BITS(x) & 0x7f800000u) == 0x7f800000u;
}
