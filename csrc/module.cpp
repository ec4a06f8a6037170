// mps_ds._C: loading it registers the operators (ops.cpp). pybind11 binds only what takes no
// tensors.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <string>
#include <utility>

#if MPS_DS_METAL
#include "mps/device_facts.h"
#include "mps/failure.h"
#include "mps/unified.h"
#endif

namespace py = pybind11;

#if MPS_DS_METAL
namespace {

// The first bytes of a buffer that the CPU can reach, as a Python buffer. `owner` is whatever keeps
// the memory: it lives as long as any view of the bytes.
struct SharedBytes {
  SharedBytes(py::object owner, uintptr_t buffer, py::ssize_t length)
      : owner(std::move(owner)), length(length) {
    const mps_ds::mps::HostMemory memory = mps_ds::mps::host_memory(buffer);
    contents = memory.contents;
    if (!contents) throw py::buffer_error("a buffer in " + memory.storage_mode + " storage");
    if (length < 0 || static_cast<uint64_t>(length) > memory.length)
      throw py::buffer_error("longer than the buffer");
  }
  py::object owner;
  void* contents;
  py::ssize_t length;
};

void bind_unified_memory(py::module_& m) {
  py::class_<SharedBytes>(m, "SharedBytes", py::buffer_protocol(),
                          "The bytes of a Metal buffer in Shared storage; keeps `owner`.")
      .def(py::init<py::object, uintptr_t, py::ssize_t>(), py::arg("owner"), py::arg("buffer"),
           py::arg("length"))
      .def_buffer([](SharedBytes& b) {
        return py::buffer_info(static_cast<uint8_t*>(b.contents), b.length);
      });
  m.def(
      "storage_mode",
      [](uintptr_t buffer) { return mps_ds::mps::host_memory(buffer).storage_mode; },
      py::arg("buffer"), "The storage mode of an MTLBuffer.");
}

}  // namespace
#endif

PYBIND11_MODULE(_C, m) {
  m.doc() = "Native operations of mps_ds";
#if MPS_DS_METAL
  const std::string unsupported = mps_ds::mps::unsupported_torch();
  if (!unsupported.empty()) throw py::import_error("mps_ds: " + unsupported);

  m.attr("has_metal") = true;
  m.def("warm_up", &mps_ds::mps::warm_up, py::call_guard<py::gil_scoped_release>(),
        "Compiles the libraries, and the pipelines of plain float32, now rather than at first "
        "use.");
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
  m.def("unsupported_device", &mps_ds::mps::unsupported_device, py::arg("metal3"),
        py::arg("argument_buffers_tier"), "Empty, or why the kernels cannot run on such a device.");
  m.def("raise_failure", &mps_ds::mps::raise_failure,
        "Raises, once, if the GPU failed in a command buffer that holds operations of mps_ds.");
  bind_unified_memory(m);
#else
  m.attr("has_metal") = false;
#endif
}
