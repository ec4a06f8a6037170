// What the software device has beyond Apple's API. Code that ships to a Mac does not include this.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace softmetal {

#define SOFTMETAL_API __attribute__((visibility("default")))

// Misuse of the API that is seen at the call. What only shows while a kernel runs becomes the
// NSError of its command buffer instead.
struct SOFTMETAL_API ValidationError : std::logic_error {
  using std::logic_error::logic_error;
};

// ---- counters ---------------------------------------------------------------------------------

struct KernelCounters {
  uint64_t dispatches = 0;
  uint64_t threadgroups = 0;
  uint64_t threads = 0;
  uint64_t encoders = 0;  // encoders that dispatched this kernel
  uint64_t declared = 0;  // distinct resources declared for it, summed over those encoders
};

struct Counters {
  uint64_t command_buffers = 0;  // created
  uint64_t commits = 0;
  uint64_t waits = 0;  // waitUntilCompleted, whether or not it had to wait
  uint64_t encoders = 0;
  uint64_t dispatches = 0;
  uint64_t threadgroups = 0;
  uint64_t threads = 0;
  uint64_t use_resource_calls = 0;  // useResources: of n counts n
  uint64_t declared = 0;            // distinct resources of each encoder
  uint64_t bytes_set = 0;           // by setBytes:
  uint64_t buffers = 0;             // created
  uint64_t libraries_compiled = 0;  // by running the compiler
  // Of what has run so far; the others count when encoded.
  uint64_t barriers = 0;
  uint64_t simd_ops = 0;
  uint64_t divergent_simd_ops = 0;
  uint64_t switches = 0;
  std::map<std::string, KernelCounters> kernels;
};

SOFTMETAL_API Counters counters();
SOFTMETAL_API void reset_counters();

// ---- memory -----------------------------------------------------------------------------------

// Gives the memory of released buffers back to the system. Returns the bytes.
SOFTMETAL_API size_t trim();

// ---- settings ---------------------------------------------------------------------------------

// Where in its pages a buffer lies: against the guard page behind it (the default: every overrun by
// `alignment` bytes or more faults) or the one in front (every underrun faults).
enum class Guard { back, front };

// Order in which threadgroups are started, and threads of a threadgroup run between barriers. What
// needs a barrier that is missing is right in one of the two orders at most.
enum class Order { forward, reverse };

// Each can also be set with the environment variable named here, which is read once.
struct Settings {
  // SOFTMETAL_STRICT=0. Refuse what works on some hardware but is undefined: nil compile options,
  // threads that return before a barrier, an exception that leaves a dispatch_sync block.
  bool strict = true;
  // SOFTMETAL_FLUSH_SUBNORMALS=0. float32 subnormals are zero in kernels, as on Apple GPUs.
  bool flush_subnormals = true;
  // SOFTMETAL_MAX_THREADS=896. Upper bound of maxTotalThreadsPerThreadgroup of pipelines made from
  // now on: on a GPU register use lowers it.
  unsigned max_threads = 1024;
  // SOFTMETAL_ALIGN=4. Alignment of a buffer's length: what is finer than this is padding.
  unsigned alignment = 16;
  Guard guard = Guard::back;     // SOFTMETAL_GUARD=front
  Order order = Order::forward;  // SOFTMETAL_ORDER=reverse
  // SOFTMETAL_POISON=1. New buffers are filled with 0xff bytes (NaN) rather than whatever was
  // there.
  bool poison = false;
  // SOFTMETAL_HIDE_CONTENTS=1. While a kernel runs nobody can use the `contents` addresses, so that
  // a kernel that was given one is caught. Host threads wait; a system call that a host thread
  // makes on contents in that time fails with EFAULT, which is why this is not the default.
  bool hide_contents = false;
  // SOFTMETAL_TIMEOUT=10. Seconds without the end of a threadgroup after which a dispatch is
  // stopped with MTLCommandBufferErrorTimeout; 0: never.
  unsigned timeout = 60;
};

SOFTMETAL_API Settings settings();
SOFTMETAL_API void set_settings(const Settings& settings);

// Command that turns Metal source into a kernel library:
//     COMMAND... --language-version 3.1 --name program_source -o LIBRARY.so -DNAME=VALUE... SOURCE
// Exit status 0, or else what it printed is the error of newLibraryWithSource:. Default:
// $SOFTMETAL_COMPILER (split at blanks), else python3 with the mslc beside this library.
SOFTMETAL_API void set_compiler(const std::vector<std::string>& command);

// Worker threads that run kernels: SOFTMETAL_THREADS, else one for each core.
SOFTMETAL_API unsigned worker_threads();

}  // namespace softmetal
