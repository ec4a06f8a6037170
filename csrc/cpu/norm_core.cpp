#include "cpu/norm_core.h"

#include <algorithm>

#include "cpu/clones.h"
#include "cpu_adam/storage.h"

namespace mps_ds {

namespace {

using cpu_adam::BFloat16;
using cpu_adam::Float16;
using cpu_adam::to_float;

// What the threads of a threadgroup have seen; on a GPU, each has its own in registers.
struct Threads {
  NormSums sums[NORM_THREADS];
  uint32_t largest[NORM_THREADS];
};

template <uint32_t kind>
MPS_DS_INLINE void merge_pair(Threads& threads, uint32_t into, uint32_t from) {
  if (kind == NORM_L2) {
    threads.sums[into] = norm_merge(threads.sums[into], threads.sums[from]);
  } else {
    threads.largest[into] = larger(threads.largest[into], threads.largest[from]);
  }
}

// The tree of norm.metal's merge_threads.
template <uint32_t kind>
MPS_DS_INLINE NormPartial merge_threads(Threads& threads) {
  for (uint32_t first = 0; first < NORM_THREADS; first += 32)
    for (uint32_t distance = 16; distance > 0; distance /= 2)
      for (uint32_t lane = 0; lane < distance; ++lane)
        merge_pair<kind>(threads, first + lane, first + lane + distance);
  for (uint32_t distance = NORM_SIMDGROUPS / 2; distance > 0; distance /= 2)
    for (uint32_t group = 0; group < distance; ++group)
      merge_pair<kind>(threads, 32 * group, 32 * (group + distance));
  if (kind == NORM_L2) return norm_partial(threads.sums[0]);
  return {cpu_adam::from_bits(threads.largest[0]), 0.0f, NORM_PLAIN,
          threads.largest[0] >= 0x7f800000u ? 1u : 0u};
}

MPS_DS_INLINE int64_t element_offset(const NormElements& elements, int64_t i) {
  if (elements.dim_count == 0) return i;
  int64_t offset = 0;
  for (uint32_t k = 0; k < elements.dim_count; ++k) {
    const int64_t size = static_cast<int64_t>(elements.dims[k].size);
    offset += i % size * elements.dims[k].strides[0];
    i /= size;
  }
  return offset;
}

template <class T>
MPS_DS_INLINE NormBlock block_of(const NormElements& elements, int64_t begin, int64_t width) {
  const T* data = static_cast<const T*>(elements.data);
  NormBlock block = {};
  const int64_t count = std::min(width, elements.numel - begin);
  if (elements.dim_count == 0 && count == width) {
    for (int64_t k = 0; k < width; ++k) block.x[k] = to_float(data[begin + k]);
  } else {
    for (int64_t k = 0; k < count; ++k)
      block.x[k] = to_float(data[element_offset(elements, begin + k)]);
  }
  return block;
}

template <class T, uint32_t type, uint32_t kind>
MPS_DS_INLINE NormPartial chunk(const NormElements& elements, int64_t begin, int64_t end) {
  constexpr int64_t width = type == STORAGE_FLOAT32 ? 4 : 8;
  Threads threads = {};
  uint32_t thread = 0;
  for (; begin < end; begin += width, thread = (thread + 1) % NORM_THREADS) {
    const NormBlock block = block_of<T>(elements, begin, width);
    if (kind == NORM_L2) {
      threads.sums[thread] = norm_add(threads.sums[thread], block, type);
    } else {
      threads.largest[thread] = larger(threads.largest[thread], magnitude_bits(block));
    }
  }
  return merge_threads<kind>(threads);
}

#define MPS_DS_NORM_CHUNK(name, T, type)                                                     \
  MPS_DS_CLONES NormPartial name(const NormElements& elements, uint32_t kind, int64_t begin, \
                                 int64_t end) {                                              \
    return kind == NORM_L2 ? chunk<T, type, NORM_L2>(elements, begin, end)                   \
                           : chunk<T, type, NORM_INF>(elements, begin, end);                 \
  }
MPS_DS_NORM_CHUNK(chunk_float32, float, STORAGE_FLOAT32)
MPS_DS_NORM_CHUNK(chunk_float16, Float16, STORAGE_FLOAT16)
MPS_DS_NORM_CHUNK(chunk_bfloat16, BFloat16, STORAGE_BFLOAT16)
#undef MPS_DS_NORM_CHUNK

template <uint32_t kind>
MPS_DS_INLINE NormPartial finish(const NormPartial* partials, uint32_t begin, uint32_t end) {
  Threads threads = {};
  uint32_t found = 0;
  for (uint32_t i = begin; i < end; ++i) {
    const uint32_t thread = (i - begin) % NORM_THREADS;
    found |= partials[i].non_finite;
    if (kind == NORM_L2) {
      threads.sums[thread] = norm_add_partial(threads.sums[thread], partials[i]);
    } else {
      threads.largest[thread] =
          larger(threads.largest[thread], cpu_adam::bits_of(partials[i].high));
    }
  }
  NormPartial sum = merge_threads<kind>(threads);
  sum.non_finite = found;
  return sum;
}

}  // namespace

NormPartial norm_of_chunk(const NormElements& elements, uint32_t kind, int64_t begin, int64_t end) {
  switch (elements.type) {
    case STORAGE_FLOAT16:
      return chunk_float16(elements, kind, begin, end);
    case STORAGE_BFLOAT16:
      return chunk_bfloat16(elements, kind, begin, end);
    default:
      return chunk_float32(elements, kind, begin, end);
  }
}

MPS_DS_CLONES
NormPartial norm_of_partials(const NormPartial* partials, uint32_t kind, uint32_t begin,
                             uint32_t end) {
  return kind == NORM_L2 ? finish<NORM_L2>(partials, begin, end)
                         : finish<NORM_INF>(partials, begin, end);
}

}  // namespace mps_ds
