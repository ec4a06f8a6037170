// The counters behind softmetal::counters(). Kernels' counters are never freed, so that pipelines
// can hold a pointer to theirs.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

namespace softmetal::counting {

using Count = std::atomic<uint64_t>;

struct Kernel {
  Count dispatches{0}, threadgroups{0}, threads{0}, encoders{0}, declared{0};
};

struct Global {
  Count command_buffers{0}, commits{0}, waits{0}, encoders{0}, dispatches{0}, threadgroups{0},
      threads{0}, use_resource_calls{0}, declared{0}, bytes_set{0}, buffers{0},
      libraries_compiled{0}, barriers{0}, simd_ops{0}, divergent_simd_ops{0}, switches{0};
};

Global& global();
Kernel& kernel(const std::string& name);

inline void add(Count& count, uint64_t n = 1) {
  count.fetch_add(n, std::memory_order_relaxed);
}

}  // namespace softmetal::counting
