#undef _FORTIFY_SOURCE  // its longjmp refuses to leave a fiber's stack
#include "faults.h"

#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <mutex>

#include "arena.h"
#include "memory.h"

namespace softmetal {
namespace {

// Sent with the address of the tag, which tells it from a trap. One of those that are ours anyway.
constexpr int kInterrupt = SIGTRAP;
char g_interrupt_tag;

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE};

struct Guarded {
  sigjmp_buf back;
  CodeRange code;
  Fault fault;
};
// initial-exec: reading it in a signal handler never allocates.
__attribute__((tls_model("initial-exec"))) thread_local Guarded* volatile t_guarded = nullptr;

struct sigaction g_previous[NSIG];
std::mutex g_signals_lock;

bool was_write(const ucontext_t* context) {
#if defined(__x86_64__)
  return context->uc_mcontext.gregs[REG_ERR] & 2;
#elif defined(__aarch64__)
  // The exception syndrome register is in a list of records behind the registers.
  struct Record {
    uint32_t magic, size;
  };
  const char* p = reinterpret_cast<const char*>(context->uc_mcontext.__reserved);
  for (;;) {
    Record record;
    memcpy(&record, p, sizeof record);
    if (!record.magic || !record.size) return false;
    if (record.magic == 0x45535201) {  // ESR_MAGIC
      uint64_t esr;
      memcpy(&esr, p + sizeof record, sizeof esr);
      return esr & (1u << 6);  // write, not read
    }
    p += record.size;
  }
#else
  return false;
#endif
}

void* instruction(const ucontext_t* context) {
#if defined(__x86_64__)
  return reinterpret_cast<void*>(context->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return reinterpret_cast<void*>(context->uc_mcontext.pc);
#else
  return nullptr;
#endif
}

void* stack_pointer(const ucontext_t* context) {
#if defined(__x86_64__)
  return reinterpret_cast<void*>(context->uc_mcontext.gregs[REG_RSP]);
#elif defined(__aarch64__)
  return reinterpret_cast<void*>(context->uc_mcontext.sp);
#else
  return nullptr;
#endif
}

// A host thread faulted: not ours to handle, but worth a word if it is about a buffer.
void explain_host_fault(const void* address) {
  if (!Arena::get().in_gpu(address)) return;
  static const char text[] =
      "softmetal: the host used a gpuAddress as a pointer. Only kernels can: the bytes are at "
      "-[MTLBuffer contents], and the data pointer of an MPS tensor is the MTLBuffer object.\n";
  ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
  (void)ignored;
}

bool is_interrupt(int signal, const siginfo_t* info) {
  return signal == kInterrupt && info->si_code == SI_QUEUE &&
         info->si_value.sival_ptr == &g_interrupt_tag;
}

void on_signal(int signal, siginfo_t* info, void* context) {
  Guarded* guarded = t_guarded;
  if (is_interrupt(signal, info)) {
    const char* pc = static_cast<char*>(instruction(static_cast<ucontext_t*>(context)));
    if (!guarded || pc < guarded->code.begin || pc >= guarded->code.end) return;
    guarded->fault.interrupted = true;
  }
  if (guarded) {
    guarded->fault.signal = signal;
    guarded->fault.code = info->si_code;
    guarded->fault.address = info->si_addr;
    guarded->fault.pc = instruction(static_cast<ucontext_t*>(context));
    guarded->fault.stack = stack_pointer(static_cast<ucontext_t*>(context));
    guarded->fault.write = was_write(static_cast<ucontext_t*>(context));
    siglongjmp(guarded->back, 1);
  }
  if (signal == SIGSEGV && HiddenContents::wait_for(info->si_addr)) return;
  if (signal == SIGSEGV &&
      EarlyAccess::admit(info->si_addr, was_write(static_cast<ucontext_t*>(context)),
                         instruction(static_cast<ucontext_t*>(context)))) {
    return;
  }
  explain_host_fault(info->si_addr);
  // To the handler that was there before, once: it may well call ours as *its* previous one.
  struct sigaction previous = g_previous[signal];
  memset(&g_previous[signal], 0, sizeof g_previous[signal]);  // SIG_DFL
  if (previous.sa_flags & SA_SIGINFO) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    ::signal(signal, SIG_DFL);  // the instruction is executed again, and kills the process
  }
}

// A stack for the handler, so that it also runs when a fiber's stack has overflowed.
class AlternateStack {
 public:
  AlternateStack() {
    stack_t current;
    sigaltstack(nullptr, &current);
    if (!(current.ss_flags & SS_DISABLE)) return;  // the thread has one
    memory_ = malloc(kSize);
    stack_t mine{};
    mine.ss_sp = memory_;
    mine.ss_size = kSize;
    sigaltstack(&mine, nullptr);
  }
  ~AlternateStack() {
    if (!memory_) return;
    stack_t off{};
    off.ss_flags = SS_DISABLE;
    sigaltstack(&off, nullptr);
    free(memory_);
  }

 private:
  static constexpr size_t kSize = 64 * 1024;
  void* memory_ = nullptr;
};

}  // namespace

void claim_signals() {
  std::lock_guard<std::mutex> lock(g_signals_lock);
  for (int signal : kSignals) {
    struct sigaction now;
    sigaction(signal, nullptr, &now);
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_signal) continue;
    struct sigaction ours{};
    ours.sa_sigaction = on_signal;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;  // left by siglongjmp, hence NODEFER
    sigemptyset(&ours.sa_mask);
    sigaction(signal, &ours, &g_previous[signal]);
  }
}

void interrupt(pthread_t thread) {
  sigval value{};
  value.sival_ptr = &g_interrupt_tag;
  pthread_sigqueue(thread, kInterrupt, value);
}

bool run_guarded(void (*body)(void*), void* context, const CodeRange& code, Fault& fault) {
  static thread_local AlternateStack stack;
  Guarded guarded;
  guarded.code = code;
  // With the signal mask: what wraps sigaction (ThreadSanitizer does) may block signals in a
  // handler.
  if (sigsetjmp(guarded.back, 1)) {
    t_guarded = nullptr;
    fault = guarded.fault;
    return false;
  }
  t_guarded = &guarded;
  body(context);
  t_guarded = nullptr;
  return true;
}

}  // namespace softmetal
