// Runs kernel code so that what would kill the process (an access to protected memory, a trap) ends
// the kernel instead.
#pragma once

namespace softmetal {

struct Fault {
  int signal = 0;
  int code = 0;             // si_code
  void* address = nullptr;  // that was accessed; for a trap the instruction
  void* pc = nullptr;       // instruction to blame
  void* stack = nullptr;    // stack pointer
  bool write = false;
};

// Calls body(context). False when it faulted: nothing below it was unwound, so body must own
// nothing that needs a destructor at that point. Must not be nested.
bool run_guarded(void (*body)(void*), void* context, Fault& fault);

// Takes the signal handlers (back) from whoever installed others, chaining to them.
void claim_signals();

}  // namespace softmetal
