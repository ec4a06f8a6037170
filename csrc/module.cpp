// mps_ds._C: loading it registers the operators (ops.cpp). pybind11 binds only what takes no
// tensors.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>

#if MPS_DS_METAL
#include "mps/device_facts.h"
#endif

namespace py = pybind11;

PYBIND11_MODULE(_C, m) {
  m.doc() = "Native operations of mps_ds";
#if MPS_DS_METAL
  const std::string unsupported = mps_ds::mps::unsupported_torch();
  if (!unsupported.empty()) throw py::import_error("mps_ds: " + unsupported);

  m.attr("has_metal") = true;
  m.def("warm_up", &mps_ds::mps::warm_up, py::call_guard<py::gil_scoped_release>(),
        "Compiles every kernel now rather than at first use.");
  m.def(
      "device_facts",
      [] {
        const mps_ds::mps::DeviceFacts facts = mps_ds::mps::device_facts();
        py::dict d;
        d["name"] = facts.name;
        d["unified_memory"] = facts.unified_memory;
        d["metal3"] = facts.metal3;
        d["argument_buffers_tier"] = facts.argument_buffers_tier;
        d["recommended_working_set_bytes"] = facts.recommended_working_set_bytes;
        d["max_buffer_bytes"] = facts.max_buffer_bytes;
        d["max_threadgroup_memory_bytes"] = facts.max_threadgroup_memory_bytes;
        return d;
      },
      "What Metal says of the device.");
#else
  m.attr("has_metal") = false;
#endif
}
