// Runs kernel code so that what would kill the process (an access to protected memory, a trap) ends
// the kernel instead.
#pragma once
#include <pthread.h>

namespace softmetal {

struct Fault {
  int signal = 0;
  int code = 0;             // si_code
  void* address = nullptr;  // that was accessed; for a trap the instruction
  void* pc = nullptr;       // instruction to blame
  void* stack = nullptr;    // stack pointer
  bool write = false;
  bool interrupted = false;  // by interrupt()
};

// The instructions of a kernel library.
struct CodeRange {
  const char *begin = nullptr, *end = nullptr;
};

// Calls body(context). False when it faulted: nothing below it was unwound, so body must own
// nothing that needs a destructor at that point. Must not be nested.
// Inside `code` it can also be interrupted.
bool run_guarded(void (*body)(void*), void* context, const CodeRange& code, Fault& fault);

// Ends run_guarded on that thread as a fault does, if it is executing `code` just now: elsewhere it
// may hold a lock. Else does nothing, so call it again.
void interrupt(pthread_t thread);

// Takes the signal handlers (back) from whoever installed others, chaining to them.
void claim_signals();

}  // namespace softmetal
