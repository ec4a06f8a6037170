// The seam between the software device (host side, ../src) and a compiled kernel library, which is
// what mslc makes of one .metal file. C layout and no system header: kernel code must not see any
// libc name.
//
// A kernel library exports
//     extern "C" const sm_library* softmetal_library();   what it contains
//     extern "C" const char* softmetal_source;            what it was compiled from
// and links against nothing: everything it needs from the host comes through sm_dispatch.
#pragma once

#define SM_ABI_VERSION 7
#define SM_MAX_BUFFERS 31                                    // argument slots of a compute encoder
#define SM_MAX_THREADGROUP_MEMORY 32768                      // bytes
#define SM_THREADGROUP_ROOM (3 * SM_MAX_THREADGROUP_MEMORY)  // with the gaps of tracing builds
#define SM_MAX_SET_BYTES 4096                                // setBytes:length:atIndex:
#define SM_MAX_THREADS 1024                                  // threads of one threadgroup
#define SM_SIMD 32                                           // threads of one simdgroup

// What a kernel parameter is bound to.
enum sm_arg_kind {
  SM_BUFFER,           // [[buffer(n)]], address space device or constant
  SM_THREADGROUP_MEM,  // [[threadgroup(n)]]
  SM_THREAD_POSITION_IN_GRID,
  SM_THREADGROUP_POSITION_IN_GRID,
  SM_THREAD_POSITION_IN_THREADGROUP,
  SM_THREADS_PER_THREADGROUP,
  SM_THREADGROUPS_PER_GRID,
  SM_THREADS_PER_GRID,
  SM_THREAD_INDEX_IN_THREADGROUP,
  SM_THREAD_INDEX_IN_SIMDGROUP,
  SM_SIMDGROUP_INDEX_IN_THREADGROUP,
  SM_SIMDGROUPS_PER_THREADGROUP,
  SM_THREADS_PER_SIMDGROUP,
  SM_DISPATCH_THREADS_PER_THREADGROUP,
  SM_GRID_ORIGIN,
  SM_THREAD_INDEX_IN_QUADGROUP,
  SM_QUADGROUP_INDEX_IN_THREADGROUP,
  SM_QUADGROUPS_PER_THREADGROUP
};

// One kernel parameter. The fields after `name` are for SM_BUFFER and SM_THREADGROUP_MEM.
struct sm_arg {
  int kind;             // sm_arg_kind
  int index;            // slot; -1 where the kind has none
  const char* name;     // as written in the source
  unsigned elem_size;   // sizeof(T) of `T*` and `T&`; 0 for void*
  unsigned elem_align;  // alignof(T); 0 for void*
  int is_pointer;       // `T*`; else `T&`, which needs a whole T bound
  int is_const;         // the kernel only reads it: `constant`, or `device const`
  int is_constant;      // address space constant; else device (or threadgroup)
  int optional;         // [[function_constant(x)]]: may stay unbound
};

struct sm_dispatch;

// ---- tracing builds ----

enum sm_access_kind { SM_READ, SM_WRITE, SM_ATOMIC_READ, SM_ATOMIC_WRITE, SM_ATOMIC_UPDATE };

struct sm_access {
  const char* address;
  unsigned long bytes;
  enum sm_access_kind kind;
  unsigned thread;  // index in its threadgroup
  const char* pc;   // in the instruction that caused it
};

#define SM_TRACED_GAP 256u  // bytes before and behind each threadgroup variable of a tracing build

// What a tracing build tells the host, before it happens.
struct sm_tracer {
  // Where memory lies that threads share; accesses elsewhere need not be told, unless
  // has_other_memory is set.
  const char *device_begin, *threadgroup_begin;
  unsigned long device_bytes, threadgroup_bytes;
  int has_other_memory;
  // 0: the access must not happen (the host has noted why), the kernel ends.
  int (*access)(struct sm_tracer*, const struct sm_access*);
  // All threads of the threadgroup have reached it. `flags`: mem_flags.
  void (*barrier)(struct sm_tracer*, unsigned flags);
  void (*simdgroup_barrier)(struct sm_tracer*, unsigned simdgroup, unsigned lanes, unsigned flags);
  // Threadgroup memory of the running threadgroup: `name` lies there.
  void (*variable)(struct sm_tracer*, const char* name, const char* address, unsigned bytes);
};

// ---- kernels ----

struct sm_kernel {
  const char* name;
  const struct sm_arg* args;
  int nargs;
  int no_sync;           // 1: no barrier and no simdgroup operation is reachable: plain loops
  unsigned max_threads;  // [[max_total_threads_per_threadgroup(n)]], else SM_MAX_THREADS
  unsigned static_threadgroup_memory;  // bytes of threadgroup variables of the kernel
  // Runs threadgroup (gx, gy, gz). *worker_state is one pointer for each worker thread and
  // kernel library, null at first; what it points to is the library's business.
  void (*run_group)(struct sm_dispatch*, void** worker_state, unsigned gx, unsigned gy,
                    unsigned gz);
  const int* needed_constants;  // indices in sm_library::fconsts that need a value; -1 ends them
};

// One function constant. The host writes the value and `*defined` before each dispatch.
struct sm_fconst {
  const char* name;
  int index;  // [[function_constant(index)]]
  void* addr;
  unsigned size;  // bytes
  int type;       // MTLDataType; 0 where it has none
  bool* defined;
};

struct sm_library {
  unsigned abi;  // SM_ABI_VERSION
  const struct sm_kernel* kernels;
  int nkernels;
  const struct sm_fconst* fconsts;
  int nfconsts;
  int traced;  // a tracing build
};

// One dispatch as its threadgroups see it. Shared by all workers that run it.
struct sm_dispatch {
  const struct sm_kernel* kernel;
  void* buffers[SM_MAX_BUFFERS];       // address of each bound slot, offset included
  unsigned tg_len[SM_MAX_BUFFERS];     // bytes of each [[threadgroup(n)]]
  unsigned grid[3], tg[3], groups[3];  // threads, threads per threadgroup, threadgroups
  int strict;                          // refuse what the hardware leaves undefined
  int order;                           // sm_order, of the threads of a threadgroup
  unsigned long seed;                  // of SM_SHUFFLED
  struct sm_tracer* tracer;            // null: not traced

  // Services of the host, for the calling worker thread.
  // Zeroed memory that lives as long as the process.
  void* (*alloc)(unsigned long bytes);
  // Top (one past the highest byte) of the worker's index-th fiber stack, SM_STACK_BYTES long and
  // with a guard page below. The stacks are shared by all kernels that the worker runs.
  char* (*stack_top)(unsigned index);
  // SM_THREADGROUP_ROOM bytes for this worker's threadgroup memory.
  char* (*threadgroup_memory)();
  // Records the first error of the dispatch. `pc`: an address in the code to blame, for the source
  // line (__builtin_return_address(0) of the function called from the kernel), or null.
  void (*fail)(struct sm_dispatch*, const char* message, const void* pc);

  // Counted by the kernel library, with atomic adds.
  unsigned long n_switches, n_barriers, n_simd_ops, n_divergent_simd_ops;
  volatile int failed;  // set by the host: the rest need not run
};

#define SM_STACK_BYTES (256 * 1024)

extern "C" typedef const struct sm_library* (*sm_library_fn)();
