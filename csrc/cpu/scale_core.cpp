#include "cpu/scale_core.h"

#include <algorithm>

#include "cpu/clones.h"
#include "cpu_adam/storage.h"

namespace mps_ds {

namespace {

using cpu_adam::BFloat16;
using cpu_adam::Float16;

constexpr int64_t kBlock = 256;  // elements converted at a time: what the first cache holds easily

template <class T>
MPS_DS_INLINE void read_as(const ScaleOperand& from, int64_t begin, int64_t count, float* x) {
  const T* data = static_cast<const T*>(from.data) + begin * from.stride;
  if (from.stride == 1) {
    for (int64_t i = 0; i < count; ++i) x[i] = cpu_adam::to_float(data[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) x[i] = cpu_adam::to_float(data[i * from.stride]);
  }
}

template <class T>
MPS_DS_INLINE void write_as(const ScaleOperand& to, int64_t begin, int64_t count, const float* x) {
  T* data = static_cast<T*>(to.data) + begin * to.stride;
  if (to.stride == 1) {
    for (int64_t i = 0; i < count; ++i) data[i] = cpu_adam::from_float<T>(x[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) data[i * to.stride] = cpu_adam::from_float<T>(x[i]);
  }
}

MPS_DS_CLONES void read(const ScaleOperand& from, int64_t begin, int64_t count, float* x) {
  if (from.type == STORAGE_FLOAT32) {
    read_as<float>(from, begin, count, x);
  } else if (from.type == STORAGE_FLOAT16) {
    read_as<Float16>(from, begin, count, x);
  } else {
    read_as<BFloat16>(from, begin, count, x);
  }
}

MPS_DS_CLONES void write(const ScaleOperand& to, int64_t begin, int64_t count, const float* x) {
  if (to.type == STORAGE_FLOAT32) {
    write_as<float>(to, begin, count, x);
  } else if (to.type == STORAGE_FLOAT16) {
    write_as<Float16>(to, begin, count, x);
  } else {
    write_as<BFloat16>(to, begin, count, x);
  }
}

MPS_DS_CLONES bool any_not_finite(const float* x, int64_t count) {
  uint32_t any = 0;
  for (int64_t i = 0; i < count; ++i) any |= not_finite(x[i]) ? 1u : 0u;
  return any != 0;
}

MPS_DS_CLONES void compute(const ScaleRun& run, const float* x, const float* y, int64_t count,
                           float* out) {
  if (run.y.data) {
    for (int64_t i = 0; i < count; ++i) out[i] = scaled_sum(run.a, x[i], run.b, y[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = scaled(run.a, x[i]);
  }
}

}  // namespace

bool scale_run(const ScaleRun& run, int64_t count) {
  float x[kBlock];
  float y[kBlock];
  float out[kBlock];
  bool bad = false;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    read(run.x, begin, n, x);
    if (run.y.data) read(run.y, begin, n, y);
    bad = bad || (run.checks_x && any_not_finite(x, n)) || (run.checks_y && any_not_finite(y, n));
    if (!run.writes) continue;
    compute(run, x, y, n, out);
    write(run.out, begin, n, out);
  }
  return bad;
}

}  // namespace mps_ds
