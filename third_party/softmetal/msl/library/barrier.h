// <metal_compute>: barriers.
#pragma once

#include "../runtime/scheduler.h"
#include "atomic.h"

namespace metal {

enum class mem_flags : uint {
  mem_none = 0,
  mem_device = 1,
  mem_threadgroup = 2,
  mem_texture = 4,
  mem_threadgroup_imageblock = 8,
};
constexpr mem_flags operator|(mem_flags a, mem_flags b) {
  return mem_flags(uint(a) | uint(b));
}
constexpr mem_flags operator&(mem_flags a, mem_flags b) {
  return mem_flags(uint(a) & uint(b));
}

inline void threadgroup_barrier(mem_flags flags, softmetal::site where = SM_SITE) {
  softmetal::barrier(where, uint(flags));
}

#if __METAL_VERSION__ >= 320
inline void atomic_thread_fence(mem_flags, memory_order, thread_scope = thread_scope_device) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
#endif

}  // namespace metal
