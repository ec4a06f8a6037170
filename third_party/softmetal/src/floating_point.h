// float32 subnormals are flushed to zero on Apple GPUs; float16 ones are not. On both of our
// architectures the matching switch leaves half precision alone.
#pragma once
#include <cstdint>

namespace softmetal {

class FlushSubnormals {
 public:
  explicit FlushSubnormals(bool flush) : saved_(read()) {
    write(flush ? saved_ | kFlush : saved_ & ~kFlush);
  }
  ~FlushSubnormals() { write(saved_); }
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr uint64_t kFlush = 0x8040;  // MXCSR: flush to zero, denormals are zero
  static uint64_t read() { return __builtin_ia32_stmxcsr(); }
  static void write(uint64_t value) { __builtin_ia32_ldmxcsr(static_cast<unsigned>(value)); }
#elif defined(__aarch64__)
  static constexpr uint64_t kFlush = 1u << 24;  // FPCR.FZ
  static uint64_t read() {
    uint64_t value;
    asm volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void write(uint64_t value) { asm volatile("msr fpcr, %0" ::"r"(value)); }
#else
#error "softmetal runs on x86-64 and arm64"
#endif
  uint64_t saved_;
};

}  // namespace softmetal
