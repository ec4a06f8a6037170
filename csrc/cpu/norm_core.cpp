#include "cpu/norm_core.h"

#include <algorithm>

#include "cpu/clones.h"
#include "cpu_adam/storage.h"

namespace mps_ds {

namespace {

using cpu_adam::BFloat16;
using cpu_adam::Float16;
using cpu_adam::to_float;

// The sums of a threadgroup's threads. Apart by kind, so that loops over threads become vectors.
struct Threads {
  float high[NORM_THREADS];  // of the plain sums
  float low[NORM_THREADS];
  FloatPair shrunk[NORM_THREADS];
  FloatPair grown[NORM_THREADS];
  bool only_plain;

  MPS_DS_INLINE NormSums sums(uint32_t thread) const {
    return {{high[thread], low[thread]}, shrunk[thread], grown[thread]};
  }
  MPS_DS_INLINE void set(uint32_t thread, NormSums sums) {
    high[thread] = sums.plain.high;
    low[thread] = sums.plain.low;
    shrunk[thread] = sums.shrunk;
    grown[thread] = sums.grown;
  }
};

MPS_DS_INLINE Threads no_threads() {
  Threads threads = {};
  threads.only_plain = true;
  return threads;
}

MPS_DS_INLINE void merge_pair(Threads& threads, uint32_t into, uint32_t from) {
  if (threads.only_plain) {
    const FloatPair sum = pair_add(FloatPair{threads.high[into], threads.low[into]},
                                   FloatPair{threads.high[from], threads.low[from]});
    threads.high[into] = sum.high;
    threads.low[into] = sum.low;
  } else {
    threads.set(into, norm_merge(threads.sums(into), threads.sums(from)));
  }
}

// The tree of norm.metal's merge_threads. Threads from `count` on have seen nothing: two of those
// make nothing.
MPS_DS_INLINE NormPartial merge_threads(Threads& threads, uint32_t count) {
  const auto merge = [&](uint32_t into, uint32_t from) {
    if (into < count) merge_pair(threads, into, from);
  };
  for (uint32_t first = 0; first < count; first += 32)
    for (uint32_t distance = 16; distance > 0; distance /= 2)
      for (uint32_t lane = 0; lane < distance; ++lane) merge(first + lane, first + lane + distance);
  for (uint32_t distance = NORM_SIMDGROUPS / 2; distance > 0; distance /= 2)
    for (uint32_t group = 0; group < distance; ++group) merge(32 * group, 32 * (group + distance));
  return norm_partial(threads.sums(0));
}

MPS_DS_INLINE int64_t element_offset(const NormElements& elements, int64_t i) {
  int64_t offset = 0;
  for (uint32_t k = 0; k < elements.dim_count; ++k) {
    const int64_t size = static_cast<int64_t>(elements.dims[k].size);
    offset += i % size * elements.dims[k].strides[0];
    i /= size;
  }
  return offset;
}

template <class T>
MPS_DS_INLINE void read(const NormElements& elements, int64_t begin, int64_t count, float* x) {
  const T* data = static_cast<const T*>(elements.data);
  if (elements.dim_count == 0) {
    for (int64_t i = 0; i < count; ++i) x[i] = to_float(data[begin + i]);
  } else {
    for (int64_t i = 0; i < count; ++i) x[i] = to_float(data[element_offset(elements, begin + i)]);
  }
}

constexpr int64_t block_width(uint32_t type) {
  return type == STORAGE_FLOAT32 ? 4 : 8;
}

// One block for each of the first `count` threads.
template <uint32_t type>
MPS_DS_INLINE void add_blocks(Threads& threads, const float* x, uint32_t count) {
  constexpr int64_t width = block_width(type);
  float plain[NORM_THREADS];
  uint32_t others = 0;
  for (uint32_t t = 0; t < count; ++t) {
    const float* block = x + width * t;
    plain[t] = sum_of_squares(block[0], block[1], block[2], block[3]);
    if (width == 8) plain[t] += sum_of_squares(block[4], block[5], block[6], block[7]);
  }
  for (uint32_t t = 0; t < count; ++t) others |= norm_is_plain(plain[t], type) ? 0u : 1u;
  if (!others) {
    for (uint32_t t = 0; t < count; ++t) {
      const FloatPair sum = norm_accumulate({threads.high[t], threads.low[t]}, plain[t]);
      threads.high[t] = sum.high;
      threads.low[t] = sum.low;
    }
    return;
  }
  threads.only_plain = false;
  for (uint32_t t = 0; t < count; ++t) {
    NormBlock block = {};
    std::copy(x + width * t, x + width * (t + 1), block.x);
    threads.set(t, norm_add(threads.sums(t), block, type));
  }
}

template <class T, uint32_t type>
MPS_DS_INLINE NormPartial l2_of_chunk(const NormElements& elements, int64_t begin, int64_t end) {
  constexpr int64_t width = block_width(type);
  constexpr int64_t row = width * NORM_THREADS;  // what all threads take at once
  Threads threads = no_threads();
  const int64_t used = std::min<int64_t>((end - begin + width - 1) / width, NORM_THREADS);
  for (; begin < end; begin += row) {
    float x[row];
    const int64_t count = std::min(row, end - begin);
    const int64_t blocks = (count + width - 1) / width;
    read<T>(elements, begin, count, x);
    std::fill(x + count, x + blocks * width, 0.0f);
    add_blocks<type>(threads, x, static_cast<uint32_t>(blocks));
  }
  return merge_threads(threads, static_cast<uint32_t>(used));
}

// The largest magnitude, whose bits do not depend on an order.
template <class T>
MPS_DS_INLINE NormPartial largest_of_chunk(const NormElements& elements, int64_t begin,
                                           int64_t end) {
  constexpr int64_t row = 1024;
  uint32_t largest = 0;
  for (; begin < end; begin += row) {
    float x[row];
    const int64_t count = std::min(row, end - begin);
    read<T>(elements, begin, count, x);
    for (int64_t i = 0; i < count; ++i) largest = larger(largest, MPS_DS_BITS(x[i]) & 0x7fffffffu);
  }
  return {MPS_DS_FLOAT(largest), 0.0f, NORM_PLAIN, largest >= 0x7f800000u ? 1u : 0u};
}

#define MPS_DS_NORM_CHUNK(name, T, type)                                                     \
  MPS_DS_CLONES NormPartial name(const NormElements& elements, uint32_t kind, int64_t begin, \
                                 int64_t end) {                                              \
    return kind == NORM_L2 ? l2_of_chunk<T, type>(elements, begin, end)                      \
                           : largest_of_chunk<T>(elements, begin, end);                      \
  }
MPS_DS_NORM_CHUNK(chunk_float32, float, STORAGE_FLOAT32)
MPS_DS_NORM_CHUNK(chunk_float16, Float16, STORAGE_FLOAT16)
MPS_DS_NORM_CHUNK(chunk_bfloat16, BFloat16, STORAGE_BFLOAT16)
#undef MPS_DS_NORM_CHUNK

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
  Threads threads = no_threads();
  threads.only_plain = false;
  uint32_t found = 0;
  uint32_t largest = 0;
  for (uint32_t i = begin; i < end; ++i) {
    const uint32_t thread = (i - begin) % NORM_THREADS;
    found |= partials[i].non_finite;
    largest = larger(largest, MPS_DS_BITS(partials[i].high));
    if (kind == NORM_L2) threads.set(thread, norm_add_partial(threads.sums(thread), partials[i]));
  }
  NormPartial result = merge_threads(threads, std::min(end - begin, NORM_THREADS));
  if (kind == NORM_INF) result.high = MPS_DS_FLOAT(largest);
  result.non_finite = found;
  return result;
}

}  // namespace mps_ds
