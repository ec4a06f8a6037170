// The tracing build of a kernel library (mslc --trace): the compiler calls a function before each
// access to memory, and the host hears of those that threads share. In other builds nothing is here
// but empty functions.
//
// The calls are those of -fsanitize=kernel-address, which clang makes for every load and store
// after it has inlined and simplified, and before it makes vectors of what the source wrote one by
// one.
#pragma once

#include "group.h"

#ifdef SM_TRACING
#define SM_UNTRACED __attribute__((no_sanitize("kernel-address")))
#else
#define SM_UNTRACED
#endif

namespace softmetal {

#ifdef SM_TRACING

constexpr bool tracing = true;

// Bytes between the variables in threadgroup memory, so that an overrun is seen.
constexpr uint threadgroup_gap = SM_TRACED_GAP;

// Of the threadgroup that this thread of the CPU runs; null: it is not watched.
static thread_local sm_tracer* current_tracer = nullptr;

SM_UNTRACED inline void start_tracing(sm_dispatch* dispatch) {
  current_tracer = dispatch->tracer;
}

SM_UNTRACED inline bool is_shared(const sm_tracer& tracer, const void* address) {
  const char* at = (const char*)address;
  return ulong(at - tracer.device_begin) < tracer.device_bytes ||
         ulong(at - tracer.threadgroup_begin) < tracer.threadgroup_bytes || tracer.has_other_memory;
}

// `pc`: the return address of the call from the kernel.
SM_UNTRACED inline void trace(const void* address, ulong bytes, sm_access_kind kind,
                              const void* pc) {
  sm_tracer* tracer = current_tracer;
  if (!tracer || !is_shared(*tracer, address)) return;
  sm_access access = {(const char*)address, bytes, kind, current_group->current,
                      (const char*)pc - 1};
  if (!tracer->access(tracer, &access)) __builtin_trap();
}

SM_UNTRACED inline void trace_barrier(uint flags) {
  if (current_tracer) current_tracer->barrier(current_tracer, flags);
}
SM_UNTRACED inline void trace_simdgroup_barrier(uint simdgroup, uint lanes, uint flags) {
  if (current_tracer) current_tracer->simdgroup_barrier(current_tracer, simdgroup, lanes, flags);
}
SM_UNTRACED inline void trace_variable(const char* name, const char* address, uint bytes) {
  if (current_tracer) current_tracer->variable(current_tracer, name, address, bytes);
}

#else

constexpr bool tracing = false;
constexpr uint threadgroup_gap = 0;
inline void start_tracing(sm_dispatch*) {}
inline void trace_barrier(uint) {}
inline void trace_simdgroup_barrier(uint, uint, uint) {}
inline void trace_variable(const char*, const char*, uint) {}

#endif

}  // namespace softmetal

#ifdef SM_TRACING

#define SM_TRACE extern "C" __attribute__((visibility("hidden"), noinline)) SM_UNTRACED
#define SM_TRACE_SIZE(bytes)                                                        \
  SM_TRACE void __asan_load##bytes(ulong address) {                                 \
    softmetal::trace((void*)address, bytes, SM_READ, __builtin_return_address(0));  \
  }                                                                                 \
  SM_TRACE void __asan_store##bytes(ulong address) {                                \
    softmetal::trace((void*)address, bytes, SM_WRITE, __builtin_return_address(0)); \
  }
SM_TRACE_SIZE(1)
SM_TRACE_SIZE(2)
SM_TRACE_SIZE(4)
SM_TRACE_SIZE(8)
SM_TRACE_SIZE(16)
#undef SM_TRACE_SIZE

SM_TRACE void __asan_loadN(ulong address, ulong bytes) {
  softmetal::trace((void*)address, bytes, SM_READ, __builtin_return_address(0));
}
SM_TRACE void __asan_storeN(ulong address, ulong bytes) {
  softmetal::trace((void*)address, bytes, SM_WRITE, __builtin_return_address(0));
}
SM_TRACE void* __asan_memcpy(void* to, const void* from, ulong bytes) {
  softmetal::trace(from, bytes, SM_READ, __builtin_return_address(0));
  softmetal::trace(to, bytes, SM_WRITE, __builtin_return_address(0));
  return __builtin_memcpy(to, from, bytes);
}
SM_TRACE void* __asan_memmove(void* to, const void* from, ulong bytes) {
  softmetal::trace(from, bytes, SM_READ, __builtin_return_address(0));
  softmetal::trace(to, bytes, SM_WRITE, __builtin_return_address(0));
  return __builtin_memmove(to, from, bytes);
}
SM_TRACE void* __asan_memset(void* to, int value, ulong bytes) {
  softmetal::trace(to, bytes, SM_WRITE, __builtin_return_address(0));
  return __builtin_memset(to, value, bytes);
}
SM_TRACE void __asan_handle_no_return() {}
#undef SM_TRACE

// In an atomic operation, which is no access of the plain kind.
#define SM_TRACE_ATOMIC(object, kind)                                                    \
  ::softmetal::trace((const void*)(object), sizeof(::softmetal::plain(object)[0]), kind, \
                     __builtin_return_address(0))
// Not inlined: it would be traced as part of the kernel, and its caller's line be lost.
#define SM_ATOMIC_FUNCTION __attribute__((noinline)) SM_UNTRACED

#else
#define SM_TRACE_ATOMIC(object, kind) (void)0
#define SM_ATOMIC_FUNCTION
#endif
