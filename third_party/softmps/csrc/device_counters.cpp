#include "device_counters.h"

#include <softmetal/softmetal.h>

#include "counters.h"

namespace softmps {
namespace {

pybind11::dict kernel_counters(const softmetal::KernelCounters& kernel) {
  pybind11::dict counts;
  counts["dispatches"] = kernel.dispatches;
  counts["threadgroups"] = kernel.threadgroups;
  counts["threads"] = kernel.threads;
  counts["encoders"] = kernel.encoders;
  counts["declared"] = kernel.declared;
  return counts;
}

}  // namespace

pybind11::dict device_and_own_counters() {
  const softmetal::Counters device = softmetal::counters();
  const Counters& own = counters();
  pybind11::dict all;
  all["dispatches"] = device.dispatches;
  all["threadgroups"] = device.threadgroups;
  all["threads"] = device.threads;
  all["encoders"] = device.encoders;
  all["declared"] = device.declared;
  all["use_resource_calls"] = device.use_resource_calls;
  all["bytes_set"] = device.bytes_set;
  all["command_buffers"] = device.command_buffers;
  // Those that the fallback makes are no property of the program.
  all["commits"] = device.commits - own.fallback_commits.load();
  all["waits"] = own.waits.load();
  all["host_reads"] = own.host_reads.load();
  all["host_writes"] = own.host_writes.load();
  all["fallback_ops"] = own.fallback_ops.load();
  all["fallback_commits"] = own.fallback_commits.load();
  all["fallback_waits"] = own.fallback_waits.load();
  pybind11::dict kernels;
  for (const auto& [name, counts] : device.kernels) {
    kernels[pybind11::str(name)] = kernel_counters(counts);
  }
  all["kernels"] = kernels;
  return all;
}

void reset_device_counters() { softmetal::reset_counters(); }

}  // namespace softmps
