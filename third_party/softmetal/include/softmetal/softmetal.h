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

// ---- tracing ----------------------------------------------------------------------------------

// Accesses to memory that threads share. An atomic operation that reads and writes is both.
struct Traffic {
  uint64_t reads = 0, writes = 0;
  uint64_t bytes_read = 0, bytes_written = 0;
  // Each byte once for every dispatch.
  uint64_t distinct_read = 0, distinct_written = 0;
  uint64_t atomics = 0;                                    // of the accesses above
  std::map<uint64_t, uint64_t> read_widths, write_widths;  // bytes of an access -> accesses

  SOFTMETAL_API Traffic& operator+=(const Traffic& other);
};

struct TracedBuffer {
  std::string label;     // of the MTLBuffer
  std::string argument;  // parameter of the kernel that it was bound to; empty: only declared
  // Of a declared buffer: the argument in which the kernel found its address, and the byte there.
  std::string table;
  uint64_t table_offset = 0;
  uint64_t address = 0;  // gpuAddress
  uint64_t length = 0;
  bool set_bytes = false;  // setBytes: data
  Traffic traffic;
};

struct TracedKernel {
  uint64_t dispatches = 0;
  std::vector<TracedBuffer> buffers;
  std::map<std::string, Traffic> threadgroup;  // by variable or argument
};

// Two accesses to one byte, at least one a write, that nothing orders.
struct Race {
  struct Access {
    std::string kernel;
    bool write = false, atomic = false;
    uint32_t thread[3] = {}, threadgroup[3] = {};  // thread_position_in_threadgroup, ...
    std::string line;                              // "file:line:column"; empty if not known
  };
  std::string memory;   // which buffer or threadgroup variable, in words
  uint64_t offset = 0;  // in it
  Access first, second;
  std::string text;  // all of it
};

struct Trace {
  std::map<std::string, TracedKernel> kernels;
  std::vector<Race> races;      // one for each pair of places in the source
  uint64_t races_left_out = 0;  // more than are described
};

// What dispatches did while Settings::trace was set, since reset_trace().
SOFTMETAL_API Trace trace();
SOFTMETAL_API void reset_trace();

// ---- memory -----------------------------------------------------------------------------------

// Gives the memory of released buffers back to the system. Returns the bytes.
SOFTMETAL_API size_t trim();

// ---- accesses of the host that come too early --------------------------------------------------

// What stands in for a framework runs at once, on the CPU, what a Mac would hand to the GPU. It
// works on own_contents(), and says with touched() which buffers each such operation uses, under
// the number of next_ticket(). Until the program has waited for that number, an access of the host
// through
// -[MTLBuffer contents] races with a GPU: it is let through, and take_early_accesses() tells of it.
// What somebody waits for with waitUntilCompleted, or finds completed, counts as waited for.
SOFTMETAL_API void* own_contents(void* buffer);  // id<MTLBuffer>
SOFTMETAL_API uint64_t last_ticket();
SOFTMETAL_API uint64_t next_ticket();
SOFTMETAL_API void touched(void* buffer, bool written, const char* by, uint64_t ticket);
SOFTMETAL_API void waited_for(uint64_t ticket);
// The same for all that the kernels of an id<MTLCommandBuffer> use, before it is committed.
SOFTMETAL_API void touched_by_kernels(void* command_buffer, uint64_t ticket);
SOFTMETAL_API std::vector<std::string> take_early_accesses();

// What this thread waits for meanwhile, the program has not waited for.
class SOFTMETAL_API QuietWait {
 public:
  QuietWait();
  ~QuietWait();
  QuietWait(const QuietWait&) = delete;
  QuietWait& operator=(const QuietWait&) = delete;
};

// ---- settings ---------------------------------------------------------------------------------

// Where in its pages a buffer lies: against the guard page behind it (the default: every overrun by
// `alignment` bytes or more faults) or the one in front (every underrun faults).
enum class Guard { back, front };

// Order in which threadgroups are started, and threads of a threadgroup run between barriers. What
// needs a barrier that is missing is right in one of the two orders at most.
// Shuffled: both in an order that `seed` chooses, another one after each barrier, with the
// simdgroups of a threadgroup interleaved; and so the dispatches of a concurrent encoder.
enum class Order { forward, reverse, shuffled };  // as sm_order

// What becomes of an access of the host that comes too early, or to a released buffer: it is told
// at the next wait; it ends the process there and then, so that a debugger or Python's faulthandler
// shows who did it; it is not looked for.
enum class EarlyAccesses { report, stop, allow };

// Each can also be set with the environment variable named here, which is read once.
struct Settings {
  // SOFTMETAL_STRICT=0. Refuse what works on some hardware but is undefined: nil compile options,
  // threads that return before a barrier, an exception that leaves a dispatch_sync block.
  bool strict = true;
  // SOFTMETAL_FLUSH_SUBNORMALS=0. float32 subnormals are zero in kernels, as on Apple GPUs.
  bool flush_subnormals = true;
  // SOFTMETAL_MAX_THREADS=896. Upper bound of maxTotalThreadsPerThreadgroup, also of pipelines that
  // exist: on a GPU register use lowers it.
  unsigned max_threads = 1024;
  // SOFTMETAL_ALIGN=4. Alignment of a buffer's length: what is finer than this is padding.
  unsigned alignment = 16;
  Guard guard = Guard::back;     // SOFTMETAL_GUARD=front
  Order order = Order::forward;  // SOFTMETAL_ORDER=reverse, SOFTMETAL_ORDER=shuffled
  uint64_t seed = 1;             // SOFTMETAL_SEED=2
  // SOFTMETAL_DELAY=20. Milliseconds by which command buffers start after they could, and complete
  // after they are done: a result that nobody waited for is not there.
  unsigned delay = 0;
  // SOFTMETAL_THREADS=2. Worker threads that run kernels; 0: one for each core.
  unsigned workers = 0;
  EarlyAccesses early_access = EarlyAccesses::report;  // SOFTMETAL_EARLY_ACCESS=stop, allow
  // SOFTMETAL_POISON=1. New buffers are filled with 0xff bytes (NaN) rather than whatever was
  // there.
  bool poison = false;
  // SOFTMETAL_HIDE_CONTENTS=1. While a kernel runs nobody can use the `contents` addresses, so that
  // a kernel that was given one is caught. Host threads wait; a system call that a host thread
  // makes on contents in that time fails with EFAULT, which is why this is not the default.
  bool hide_contents = false;
  // SOFTMETAL_TRACE=1. Kernels run in a tracing build, made when it is first needed, that tells of
  // each access to memory: for trace(), and for races and accesses out of bounds. One worker runs.
  bool trace = false;
  // SOFTMETAL_FAIL_ON_RACE=0. A race is the error of its command buffer.
  bool fail_on_race = true;
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

// Worker threads that run kernels: Settings::workers, else one for each core.
SOFTMETAL_API unsigned worker_threads();

}  // namespace softmetal
