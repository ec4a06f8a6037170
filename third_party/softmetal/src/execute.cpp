#include "execute.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "counters.h"
#include "failure_text.h"
#include "faults.h"
#include "floating_point.h"
#include "softmetal/softmetal.h"
#include "softmetal_order.h"
#include "tracer.h"
#include "watchdog.h"
#include "workers.h"

namespace softmetal {
namespace {

// sm_dispatch::failed, which workers look at while another one sets it.
void set_failed(sm_dispatch& abi) {
  __atomic_store_n(&abi.failed, 1, __ATOMIC_RELAXED);
}
bool has_failed(const sm_dispatch& abi) {
  return __atomic_load_n(&abi.failed, __ATOMIC_RELAXED);
}

// A dispatch while it runs. The kernel library sees `abi`, which therefore comes first.
struct Job {
  sm_dispatch abi{};
  const Dispatch* dispatch;
  uint64_t total = 1;           // threadgroups
  sm_order order = SM_FORWARD;  // of threadgroups
  bool flush = true;
  tracing::Tracer* tracer = nullptr;
  std::atomic<uint64_t> next{0}, done{0};

  // The first failure. Put into words when all workers are done.
  struct Raw {
    Fault fault;
    const char* message;  // of the kernel library, which comes before the fault
    const void* pc;
    GroupPosition group;
  };
  std::mutex lock;
  std::optional<Raw> failure;
  std::vector<pthread_t> workers;  // that run threadgroups now
  bool timed_out = false;

  void fail(const Raw& raw) {
    std::lock_guard<std::mutex> guard(lock);
    if (!failure) failure = raw;
    set_failed(abi);
  }

  // Of the watchdog.
  void stop() {
    std::lock_guard<std::mutex> guard(lock);
    timed_out = true;
    set_failed(abi);
    for (pthread_t worker : workers) interrupt(worker);
  }

  void enter() {
    std::lock_guard<std::mutex> guard(lock);
    workers.push_back(pthread_self());
  }
  void leave() {
    std::lock_guard<std::mutex> guard(lock);
    workers.erase(std::find(workers.begin(), workers.end(), pthread_self()));
  }
};

// What one thread is doing, for error messages.
struct Lane {
  Job* job;
  void** state;
  GroupPosition group;
  const char* message = nullptr;  // of sm_dispatch::fail
  const void* pc = nullptr;
};

__attribute__((tls_model("initial-exec"))) thread_local Lane* t_lane = nullptr;

// Called from a fiber: only notes what happened, the words are made on the thread's own stack.
void note_failure(sm_dispatch* abi, const char* message, const void* pc) {
  if (!t_lane->message) {
    t_lane->message = message;
    t_lane->pc = pc;
  }
  set_failed(*abi);
}

void run_groups(void* context) {
  Lane& lane = *static_cast<Lane*>(context);
  Job& job = *lane.job;
  const unsigned* groups = job.abi.groups;
  while (!has_failed(job.abi)) {
    uint64_t i = job.next.fetch_add(1, std::memory_order_relaxed);
    if (i >= job.total) break;
    i = in_order(job.order, i, job.total, job.abi.seed);
    lane.group.x = i % groups[0];
    lane.group.y = i / groups[0] % groups[1];
    lane.group.z = i / groups[0] / groups[1];
    if (job.tracer) job.tracer->start_group(i);
    job.abi.kernel->run_group(&job.abi, lane.state, lane.group.x, lane.group.y, lane.group.z);
    job.done.fetch_add(1, std::memory_order_relaxed);
  }
}

void work(Job& job) {
  static thread_local std::unordered_map<const KernelLibrary*, void*> states;
  Lane lane{&job, &states[job.dispatch->function.library], {}};
  Fault fault;
  bool ok;
  {
    FlushSubnormals flush(job.flush);
    t_lane = &lane;
    job.enter();
    ok = run_guarded(run_groups, &lane, job.dispatch->function.library->code(), fault);
    job.leave();
    t_lane = nullptr;
  }
  if (job.tracer && job.tracer->refusal()) {
    const tracing::Tracer::Refusal& refusal = *job.tracer->refusal();
    fault = refusal.fault;
    if (!refusal.message.empty()) lane.message = refusal.message.c_str();
    lane.pc = fault.pc;
  }
  if (lane.message || !ok) job.fail({fault, lane.message, lane.pc, lane.group});
}

// setBytes: data. Each slot is a page that kernels can read, with the data against the end of it.
class BytesSlots {
 public:
  // Address of a copy that is valid until the next dispatch.
  std::shared_ptr<Memory> put(const sm_arg& argument, const std::vector<char>& bytes) {
    std::shared_ptr<Memory>& slot = slots_[argument.index];
    if (!slot) slot = Memory::allocate(SM_MAX_SET_BYTES);
    if (!slot) return nullptr;
    slot->place(bytes.size(), argument.elem_align ? argument.elem_align : 1);
    slot->set_label("setBytes: data of '" + std::string(argument.name) + "'");
    memcpy(slot->own(), bytes.data(), bytes.size());
    return slot;
  }

 private:
  std::array<std::shared_ptr<Memory>, SM_MAX_BUFFERS> slots_;
};

void count(const sm_dispatch& abi) {
  counting::Global& c = counting::global();
  counting::add(c.switches, abi.n_switches);
  counting::add(c.barriers, abi.n_barriers);
  counting::add(c.simd_ops, abi.n_simd_ops);
  counting::add(c.divergent_simd_ops, abi.n_divergent_simd_ops);
}

// Every buffer that the dispatch may touch; fills in the addresses.
std::optional<Failure> gather(const Dispatch& dispatch, sm_dispatch& abi,
                              std::vector<Access>& accesses) {
  static auto* slots = new BytesSlots;
  accesses.assign(dispatch.declared->begin(), dispatch.declared->begin() + dispatch.declared_count);
  for (const Access& a : accesses) {
    if (a.memory->released()) return describe_released(*a.memory, true, dispatch);
  }
  for (const Dispatch::Argument& argument : dispatch.buffers) {
    const Binding& b = argument.binding;
    if (!b.is_set()) continue;
    std::shared_ptr<Memory> memory =
        b.memory ? b.memory : slots->put(*argument.declaration, b.bytes);
    if (!memory) return Failure{Failure::out_of_memory, "no memory for setBytes: data"};
    if (memory->released()) return describe_released(*memory, false, dispatch);
    abi.buffers[argument.declaration->index] = memory->gpu() + b.offset;
    accesses.push_back({std::move(memory), !argument.declaration->is_const});
  }
  return std::nullopt;
}

std::optional<Failure> describe(const Job& job, unsigned seconds) {
  if (job.timed_out) {
    const Job::Raw where = job.failure.value_or(Job::Raw{});
    return describe_timeout(seconds, where.fault.pc, *job.dispatch, where.group);
  }
  if (!job.failure) return std::nullopt;
  const Job::Raw& raw = *job.failure;
  if (raw.message) return describe_message(raw.message, raw.pc, *job.dispatch, raw.group);
  return describe_fault(raw.fault, *job.dispatch, raw.group);
}

}  // namespace

void Dispatch::take_arguments(const sm_kernel& kernel, const BindingTable& bindings,
                              const ThreadgroupLengths& lengths) {
  for (int i = 0; i < kernel.nargs; ++i) {
    const sm_arg& argument = kernel.args[i];
    if (argument.kind == SM_BUFFER) buffers.push_back({&argument, bindings[argument.index]});
    if (argument.kind == SM_THREADGROUP_MEM) {
      threadgroup_lengths[argument.index] = lengths[argument.index];
    }
  }
}

namespace {

// The same dispatch in a tracing build.
std::optional<Failure> use_tracing_build(Dispatch& dispatch) {
  Function& f = dispatch.function;
  if (f.library->contents()->traced) return std::nullopt;
  const MetalSource* source = f.library->source();
  std::string error = "its library was not made from source";
  const KernelLibrary* library = nullptr;
  if (source) {
    MetalSource traced = *source;
    traced.traced = true;
    library = find_or_compile(traced, error);
  }
  const sm_kernel* kernel = library ? library->find(f.kernel->name) : nullptr;
  if (!kernel) {
    return Failure{Failure::internal,
                   std::string("kernel '") + f.kernel->name + "' has no tracing build: " + error};
  }
  f.library = library;
  f.kernel = kernel;
  return std::nullopt;
}

}  // namespace

std::optional<Failure> execute(const Dispatch& encoded, tracing::Tracer* tracer) {
  static std::mutex device;
  std::lock_guard<std::mutex> one(device);
  const Settings s = settings();

  Dispatch traced;
  if (tracer) {
    traced = encoded;
    if (auto failure = use_tracing_build(traced)) return failure;
  }
  const Dispatch& dispatch = tracer ? traced : encoded;

  Job job;
  job.tracer = tracer;
  job.abi.tracer = tracer;
  job.dispatch = &dispatch;
  job.order = static_cast<sm_order>(s.order);
  job.flush = s.flush_subnormals;
  job.abi.kernel = dispatch.function.kernel;
  job.abi.strict = s.strict;
  job.abi.order = job.order;
  job.abi.seed = s.seed;
  job.abi.alloc = allocate_forever;
  job.abi.stack_top = fiber_stack_top;
  job.abi.threadgroup_memory = threadgroup_memory;
  job.abi.fail = note_failure;
  for (int i = 0; i < 3; ++i) {
    job.abi.grid[i] = dispatch.grid[i];
    job.abi.tg[i] = dispatch.threadgroup[i];
    job.abi.groups[i] = (dispatch.grid[i] + dispatch.threadgroup[i] - 1) / dispatch.threadgroup[i];
    job.total *= job.abi.groups[i];
  }
  std::copy(dispatch.threadgroup_lengths.begin(), dispatch.threadgroup_lengths.end(),
            job.abi.tg_len);

  std::vector<Access> accesses;
  if (auto failure = gather(dispatch, job.abi, accesses)) return failure;
  dispatch.function.library->set_constants(*dispatch.function.constants);
  if (!Residency::grant(accesses)) {
    return Failure{Failure::out_of_memory,
                   std::string("kernel '") + dispatch.function.kernel->name +
                       "': " + std::to_string(accesses.size()) +
                       " buffers at once are more memory maps than the system allows (sysctl "
                       "vm.max_map_count)"};
  }
  if (tracer) tracer->start(dispatch, job.abi, accesses, threadgroup_memory());
  claim_signals();
  if (s.hide_contents) HiddenContents::hide();
  {
    Watchdog watchdog(s.timeout, job.done, [&] { job.stop(); });
    run_on_workers([&] { work(job); },
                   tracer ? 1 : std::min<uint64_t>(job.total, worker_threads()));
  }
  if (s.hide_contents) HiddenContents::show();
  count(job.abi);
  Location damage;
  const bool damaged = Residency::finish(damage);
  auto failure = describe(job, s.timeout);
  if (damaged && !failure) failure = describe_damage(damage, dispatch);
  if (tracer) {
    const std::optional<std::string> race = tracer->finish();
    if (race && s.fail_on_race && !failure) failure = Failure{Failure::internal, *race};
  }
  return failure;
}

}  // namespace softmetal
