// What the tests of the core share: values, buffers between guard pages, failures, a digest.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cpu_adam/adam_core.h"

using namespace mps_ds::cpu_adam;

inline int64_t checks = 0;
inline int64_t failures = 0;

// One line for each failure, up to a few.
__attribute__((format(printf, 2, 3))) inline void check(bool good, const char* format, ...) {
  ++checks;
  if (good || ++failures > 20) return;
  va_list arguments;
  va_start(arguments, format);
  std::fprintf(stderr, "FAILED (%s): ", adam_backend().c_str());
  std::vfprintf(stderr, format, arguments);
  std::fprintf(stderr, "\n");
  va_end(arguments);
}

// The same numbers on every machine: integers only.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2654435761u + 88172645463325252u) {}
  uint32_t bits() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<uint32_t>(state_ >> 32);
  }
  // Of either sign, or positive; magnitudes spread evenly over [2^low, 2^high).
  float value(int low, int high, bool positive = false) {
    const uint32_t exponent = 127 + static_cast<uint32_t>(low) + bits() % (high - low);
    const uint32_t sign = positive ? 0 : bits() & 0x80000000u;
    return from_bits(sign | exponent << 23 | (bits() & 0x7fffffu));
  }

 private:
  uint64_t state_;
};

// FNV-1a over what the steps store. Which NaN comes out is not defined, so all count as one.
class Digest {
 public:
  void add(double x) {
    const uint64_t bits = std::isnan(x) ? 0x7ff8000000000000u : __builtin_bit_cast(uint64_t, x);
    for (int shift = 0; shift < 64; shift += 8) {
      hash_ ^= bits >> shift & 0xff;
      hash_ *= 0x100000001b3u;
    }
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325u;
};

inline Digest digest;

// Pages with an inaccessible one on either side. place() puts a buffer against one of them.
class Guarded {
 public:
  explicit Guarded(size_t capacity) {
    page_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    inside_ = (capacity + page_ - 1) / page_ * page_;
    void* all = mmap(nullptr, inside_ + 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANON, -1, 0);
    if (all == MAP_FAILED) std::abort();
    first_ = static_cast<char*>(all) + page_;
    if (mprotect(first_, inside_, PROT_READ | PROT_WRITE) != 0) std::abort();
  }
  ~Guarded() { munmap(first_ - page_, inside_ + 2 * page_); }
  Guarded(const Guarded&) = delete;

  // `gap` bytes from the guard before (`at_end` false) or behind.
  char* place(size_t bytes, size_t gap, bool at_end) {
    if (bytes + gap > inside_) std::abort();
    return at_end ? first_ + inside_ - gap - bytes : first_ + gap;
  }

 private:
  size_t page_;
  size_t inside_;
  char* first_;
};

inline double load(Storage storage, const void* data, int64_t i) {
  if (storage == Storage::kFloat32) return static_cast<const float*>(data)[i];
  if (storage == Storage::kFloat16) return to_float(static_cast<const Float16*>(data)[i]);
  return to_float(static_cast<const BFloat16*>(data)[i]);
}

inline void store(Storage storage, void* data, int64_t i, float x) {
  if (storage == Storage::kFloat32) {
    static_cast<float*>(data)[i] = x;
  } else if (storage == Storage::kFloat16) {
    static_cast<Float16*>(data)[i] = from_float<Float16>(x);
  } else {
    static_cast<BFloat16*>(data)[i] = from_float<BFloat16>(x);
  }
}

inline const char* name(Storage storage) {
  constexpr const char* kNames[] = {"float32", "float16", "bfloat16"};
  return kNames[static_cast<int>(storage)];
}

constexpr Storage kStorages[] = {Storage::kFloat32, Storage::kFloat16, Storage::kBFloat16};

FloatPair pair(double x);

// Of options as a user gives them, in double.
struct Options {
  const char* name;
  double lr, beta1, beta2, eps, weight_decay;
  bool adam_w, maximize, amsgrad;
  double grad_scale, clip_value;  // infinite: none
  bool copy;
  Storage copy_type;
  double correction1, correction2;  // 1 - beta^t: constants, so that no machine's pow() matters
};

AdamHyper hyper_of(const Options& options);

void test_steps();
void test_conversions();
void test_layouts();
