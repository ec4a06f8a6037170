// Tables through which one dispatch reaches any number of tensors, n of one shape side by side;
// read by kernels, written by tensor_list.h. A kernel pointer is a 64-bit gpuAddress (plus byte
// offset) on the host.
#pragma once

#if defined(__METAL_VERSION__)
#define ROW_POINTER device void*
#else
#include <cstdint>
#define ROW_POINTER uint64_t
#endif

// TensorRow::layout
#define ROW_WIDE 0u     // one run of consecutive elements in all tensors, aligned to 16 bytes
#define ROW_FLAT 1u     // one run of consecutive elements
#define ROW_STRIDED 2u  // walks TensorDim

#define ROW_TYPE_BITS 8u  // of one tensor in TensorRow::types, the first in the lowest

template <uint32_t n>
struct TensorRow {
  ROW_POINTER data[n];
  uint64_t numel;
  uint32_t types;  // STORAGE_*
  uint32_t layout;
  uint32_t dim_begin;  // ROW_STRIDED: first entry in the table, innermost dimension first
  uint32_t dim_count;
};

// One dimension of a strided row; strides in elements. Neighbours that are dense in all tensors are
// merged before, so few remain.
template <uint32_t n>
struct TensorDim {
  uint64_t size;
  int64_t strides[n];
};

// Elements [index * span, (index + 1) * span) of a row, as far as it has them: one threadgroup's
// work.
struct RowChunk {
  uint32_t row;
  uint32_t index;
};
