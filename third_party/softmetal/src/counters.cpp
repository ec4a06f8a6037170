#include "counters.h"

#include <map>
#include <memory>
#include <mutex>

#include "softmetal/softmetal.h"

namespace softmetal {
namespace counting {
namespace {

std::mutex g_lock;

std::map<std::string, std::unique_ptr<Kernel>>& kernels() {
  static auto* all = new std::map<std::string, std::unique_ptr<Kernel>>;
  return *all;
}

// One list of the fields for reading and resetting.
template <class F>
void each(Counters& out, Global& in, F f) {
  f(out.command_buffers, in.command_buffers);
  f(out.commits, in.commits);
  f(out.waits, in.waits);
  f(out.encoders, in.encoders);
  f(out.dispatches, in.dispatches);
  f(out.threadgroups, in.threadgroups);
  f(out.threads, in.threads);
  f(out.use_resource_calls, in.use_resource_calls);
  f(out.declared, in.declared);
  f(out.bytes_set, in.bytes_set);
  f(out.buffers, in.buffers);
  f(out.libraries_compiled, in.libraries_compiled);
  f(out.barriers, in.barriers);
  f(out.simd_ops, in.simd_ops);
  f(out.divergent_simd_ops, in.divergent_simd_ops);
  f(out.switches, in.switches);
}

template <class F>
void each(KernelCounters& out, Kernel& in, F f) {
  f(out.dispatches, in.dispatches);
  f(out.threadgroups, in.threadgroups);
  f(out.threads, in.threads);
  f(out.encoders, in.encoders);
  f(out.declared, in.declared);
}

}  // namespace

Global& global() {
  static auto* counters = new Global;
  return *counters;
}

Kernel& kernel(const std::string& name) {
  std::lock_guard<std::mutex> lock(g_lock);
  std::unique_ptr<Kernel>& slot = kernels()[name];
  if (!slot) slot = std::make_unique<Kernel>();
  return *slot;
}

}  // namespace counting

Counters counters() {
  using namespace counting;
  Counters result;
  const auto read = [](uint64_t& out, Count& in) { out = in.load(std::memory_order_relaxed); };
  each(result, global(), read);
  std::lock_guard<std::mutex> lock(g_lock);
  for (auto& [name, in] : kernels()) {
    KernelCounters one;
    each(one, *in, read);
    if (one.dispatches) result.kernels.emplace(name, one);
  }
  return result;
}

void reset_counters() {
  using namespace counting;
  Counters unused;
  const auto clear = [](uint64_t&, Count& in) { in.store(0, std::memory_order_relaxed); };
  each(unused, global(), clear);
  std::lock_guard<std::mutex> lock(g_lock);
  KernelCounters none;
  for (auto& entry : kernels()) each(none, *entry.second, clear);
}

}  // namespace softmetal
