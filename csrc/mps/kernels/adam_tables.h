// Tables through which one dispatch reaches any number of tensors; read by adam.metal, written by
// adam.mm. A kernel pointer is a 64-bit gpuAddress (plus byte offset) on the host.
#pragma once

#if defined(__METAL_VERSION__)
#define MPS_DS_POINTER(T) device T*
#else
#include <cstdint>
#define MPS_DS_POINTER(T) uint64_t
#endif

// Elements of one threadgroup's work: large enough to hide the table reads, small enough to
// balance.
#define ADAM_CHUNK 8192
// The kernel is right for any number.
#define ADAM_THREADS 512

// AdamStepRow::flags
#define ADAM_SKIP 1u     // the param has no gradient in this step
#define ADAM_WIDE 2u     // dense, and all four addresses are aligned to 16 bytes
#define ADAM_STRIDED 4u  // walks AdamDim

// Outlives the step: what a param is.
struct AdamRow {
  MPS_DS_POINTER(float) param;
  MPS_DS_POINTER(float) exp_avg;
  MPS_DS_POINTER(float) exp_avg_sq;
  uint64_t numel;
};

// Outlives the step: chunk `index` of row `row`; one threadgroup each.
struct AdamChunk {
  uint32_t row;
  uint32_t index;
};

// Of one step, parallel to the rows.
struct AdamStepRow {
  MPS_DS_POINTER(const float) grad;
  uint32_t hyper;  // index into the AdamHyper table
  uint32_t flags;
  uint32_t dim_begin;  // ADAM_STRIDED: first entry in the AdamDim table, innermost dimension first
  uint32_t dim_count;
};

// One dimension of a strided row; strides in elements. Adjacent dimensions that are dense in all
// four tensors are merged before, so few remain.
struct AdamDim {
  uint64_t size;
  int64_t param;
  int64_t grad;
  int64_t exp_avg;
  int64_t exp_avg_sq;
};
