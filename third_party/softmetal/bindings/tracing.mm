// What <softmetal/softmetal.h> tells of traced dispatches. mps_ds.softmetal._tracing makes objects
// of it.
#include "softmetal/softmetal.h"

#include "wrappers.h"

namespace softmetal::bindings {
namespace {

py::dict to_dict(const Traffic& t) {
  py::dict d;
  d["reads"] = t.reads;
  d["writes"] = t.writes;
  d["bytes_read"] = t.bytes_read;
  d["bytes_written"] = t.bytes_written;
  d["distinct_read"] = t.distinct_read;
  d["distinct_written"] = t.distinct_written;
  d["atomics"] = t.atomics;
  d["read_widths"] = t.read_widths;
  d["write_widths"] = t.write_widths;
  return d;
}

py::dict to_dict(const TracedBuffer& b) {
  py::dict d;
  d["label"] = b.label;
  d["argument"] = b.argument;
  d["table"] = b.table;
  d["table_offset"] = b.table_offset;
  d["address"] = b.address;
  d["length"] = b.length;
  d["set_bytes"] = b.set_bytes;
  d["traffic"] = to_dict(b.traffic);
  return d;
}

py::dict to_dict(const TracedKernel& k) {
  py::list buffers;
  for (const TracedBuffer& b : k.buffers) buffers.append(to_dict(b));
  py::dict threadgroup;
  for (const auto& [name, traffic] : k.threadgroup) threadgroup[py::str(name)] = to_dict(traffic);
  py::dict d;
  d["dispatches"] = k.dispatches;
  d["buffers"] = buffers;
  d["threadgroup"] = threadgroup;
  return d;
}

py::dict to_dict(const Race::Access& a) {
  py::dict d;
  d["kernel"] = a.kernel;
  d["write"] = a.write;
  d["atomic"] = a.atomic;
  d["thread"] = py::make_tuple(a.thread[0], a.thread[1], a.thread[2]);
  d["threadgroup"] = py::make_tuple(a.threadgroup[0], a.threadgroup[1], a.threadgroup[2]);
  d["line"] = a.line;
  return d;
}

py::dict to_dict(const Race& r) {
  py::dict d;
  d["memory"] = r.memory;
  d["offset"] = r.offset;
  d["first"] = to_dict(r.first);
  d["second"] = to_dict(r.second);
  d["text"] = r.text;
  return d;
}

py::dict read_trace() {
  const Trace t = trace();
  py::dict kernels;
  for (const auto& [name, kernel] : t.kernels) kernels[py::str(name)] = to_dict(kernel);
  py::list races;
  for (const Race& race : t.races) races.append(to_dict(race));
  py::dict d;
  d["kernels"] = kernels;
  d["races"] = races;
  d["races_left_out"] = t.races_left_out;
  return d;
}

}  // namespace

void bind_tracing(py::module_& m) {
  m.def("read_trace", &read_trace);
  m.def("reset_trace", &reset_trace);
  // The address of the MTLBuffer object, which the data pointer of an MPS tensor is.
  m.def("gpu_address_of", [](uintptr_t object) {
    return pooled([&] { return uint64_t([(id<MTLBuffer>)(void*)object gpuAddress]); });
  });
}

}  // namespace softmetal::bindings
