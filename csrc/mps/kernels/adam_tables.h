// Tables through which one dispatch reaches any number of tensors; read by adam.metal, written by
// adam_plan.mm and adam_step.mm. A kernel pointer is a 64-bit gpuAddress (plus byte offset) on the
// host.
#pragma once

#include "storage_types.h"

#if defined(__METAL_VERSION__)
#define MPS_DS_POINTER(T) device T*
#else
#include <cstdint>
#define MPS_DS_POINTER(T) uint64_t
#endif

// Elements of one threadgroup's work, and how many of its threads: each takes two blocks, of the
// elements that fill 16 bytes of a state. Chosen by measuring (benchmarks/gpu/NOTES.md); the kernel
// is right for any multiple of 8 and any number of threads.
#define ADAM_CHUNK 1536
#define ADAM_WIDTH(state_type) ((state_type) == STORAGE_FLOAT32 ? 4u : 8u)
#define ADAM_THREADS(state_type) (ADAM_CHUNK / 2u / ADAM_WIDTH(state_type))

// AdamStepRow::flags
#define ADAM_SKIP 1u                          // the param has no gradient in this step
#define ADAM_WIDE 2u                          // dense, and all addresses are aligned to 16 bytes
#define ADAM_STRIDED 4u                       // walks AdamDim
#define ADAM_GRAD_TYPE(flags) ((flags) >> 8)  // a STORAGE_ type

// AdamCall::flags: what is read from the GPU
#define ADAM_FOUND_INF 1u
#define ADAM_GRAD_SCALE 2u
#define ADAM_CLIP_COEF 4u
#define ADAM_CLIP_VALUE_TENSOR 8u

// Operands of a row that have strides.
#define ADAM_PARAM 0
#define ADAM_GRAD 1
#define ADAM_EXP_AVG 2
#define ADAM_EXP_AVG_SQ 3
#define ADAM_MAX_EXP_AVG_SQ 4
#define ADAM_COPY 5
#define ADAM_OPERANDS 6

// Outlives the step: what a param is. Types are those of the pipeline.
struct AdamRow {
  MPS_DS_POINTER(void) param;
  MPS_DS_POINTER(void) exp_avg;
  MPS_DS_POINTER(void) exp_avg_sq;
  MPS_DS_POINTER(void) max_exp_avg_sq;  // amsgrad
  MPS_DS_POINTER(void) copy;            // takes the new param in 16 bits
  MPS_DS_POINTER(float) step;           // the step count, where it is on the GPU
  uint64_t numel;
};

// Outlives the step: chunk `index` of row `row`; one threadgroup each.
struct AdamChunk {
  uint32_t row;
  uint32_t index;
};

// Of one step, parallel to the rows.
struct AdamStepRow {
  MPS_DS_POINTER(const void) grad;
  MPS_DS_POINTER(const float) lr;  // where it is on the GPU, or null
  uint32_t hyper;                  // index into the AdamHyper table
  uint32_t flags;
  uint32_t dim_begin;  // ADAM_STRIDED: first entry in the AdamDim table, innermost dimension first
  uint32_t dim_count;
};

// One dimension of a strided row; strides in elements, 0 of operands that the row has not.
// Adjacent dimensions that are dense in all tensors are merged before, so few remain.
struct AdamDim {
  uint64_t size;
  int64_t strides[ADAM_OPERANDS];
};

// Of one dispatch.
struct AdamCall {
  uint64_t seed;     // of stochastic rounding
  float grad_scale;  // where the host knows it
  float clip_coef;
  uint32_t flags;
};
