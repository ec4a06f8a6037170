// Switching between stacks: the threads of a threadgroup that wait for each other are fibers of one
// worker thread. Only what the calling convention preserves is saved; the floating-point modes
// (MXCSR, FPCR) are those of the worker and stay as they are.
#pragma once

#include "../library/types.h"

namespace softmetal {

#if defined(__x86_64__)

// Stores the stack pointer at *save and continues on the stack `load`, where an earlier call (or
// prepare_stack) left off.
__attribute__((naked, noinline)) static void switch_stack(void** save, void* load) {
  asm volatile(
      "push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
      "mov %rsp, (%rdi)\n"
      "mov %rsi, %rsp\n"
      "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp\n"
      "ret");
}

// A stack whose first switch enters `entry`, aligned as after a call.
static void* prepare_stack(char* top, void (*entry)()) {
  void** sp = (void**)((ulong)top & ~15ul);
  *--sp = 0;  // where the return address of `entry` would be
  *--sp = (void*)entry;
  for (int i = 0; i < 6; ++i) *--sp = 0;
  return sp;
}

#elif defined(__aarch64__)

__attribute__((naked, noinline)) static void switch_stack(void** save, void* load) {
  asm volatile(
      "sub sp, sp, #160\n"
      "stp x19, x20, [sp, #0]\n  stp x21, x22, [sp, #16]\n"
      "stp x23, x24, [sp, #32]\n stp x25, x26, [sp, #48]\n"
      "stp x27, x28, [sp, #64]\n stp x29, x30, [sp, #80]\n"
      "stp d8, d9, [sp, #96]\n   stp d10, d11, [sp, #112]\n"
      "stp d12, d13, [sp, #128]\n stp d14, d15, [sp, #144]\n"
      "mov x9, sp\n"
      "str x9, [x0]\n"
      "mov sp, x1\n"
      "ldp x19, x20, [sp, #0]\n  ldp x21, x22, [sp, #16]\n"
      "ldp x23, x24, [sp, #32]\n ldp x25, x26, [sp, #48]\n"
      "ldp x27, x28, [sp, #64]\n ldp x29, x30, [sp, #80]\n"
      "ldp d8, d9, [sp, #96]\n   ldp d10, d11, [sp, #112]\n"
      "ldp d12, d13, [sp, #128]\n ldp d14, d15, [sp, #144]\n"
      "add sp, sp, #160\n"
      "ret");
}

static void* prepare_stack(char* top, void (*entry)()) {
  void** sp = (void**)((ulong)top & ~15ul) - 20;
  for (int i = 0; i < 20; ++i) sp[i] = 0;
  sp[11] = (void*)entry;  // x30
  return sp;
}

#else
#error "softmetal runs on x86-64 and arm64"
#endif

}  // namespace softmetal
