// The Python module mps_ds.softmps._C. Loading it gives the process its MPS device.
#include <c10/core/Allocator.h>
#include <softmetal/softmetal.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/utils/pybind.h>

#include "blocks.h"
#include "bridge.h"
#include "counters.h"
#include "fork_guard.h"
#include "hooks.h"
#include "host_code.h"
#include "metal.h"
#include "op_call.h"
#include "shader_arguments.h"
#include "unfinished_copies.h"

namespace softmps {
namespace {

at::Tensor host_view(const at::Tensor& tensor, bool wait) {
  TORCH_CHECK(tensor.is_mps(), "host_view: expected a tensor on mps, got ", tensor.device());
  require_not_forked();
  if (wait) {
    py::gil_scoped_release no_gil;
    metal::wait(metal::Reason::kFallback);  // an instrument: not counted as the program's wait
  }
  Bridge bridge(/*call=*/nullptr);
  return bridge.to_host(tensor);
}

py::dict buffer_info(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_mps(), "buffer_info: expected a tensor on mps, got ", tensor.device());
  const Block* block = block_of(tensor.storage());
  py::dict info;
  info["buffer"] = block ? reinterpret_cast<uintptr_t>(block->buffer) : 0;
  info["contents"] = block ? reinterpret_cast<uintptr_t>(metal::contents(block->buffer)) : 0;
  info["gpu_address"] = block ? metal::gpu_address(block->buffer) : 0;
  info["length"] = block ? block->length : 0;
  return info;
}

// A CPU storage over the buffer's contents. As on a Mac nothing waits: that is for the caller.
at::Storage host_alias_storage(const py::object& object) {
  TORCH_CHECK(torch::isStorage(object.ptr()),
              "_mps_host_alias_storage: expected a torch.UntypedStorage");
  const at::Storage storage = torch::createStorage(object.ptr());
  TORCH_CHECK(storage.device().is_mps(),
              "getHostAliasStorage: expected an MPS storage, got device=", storage.device());
  require_not_forked();
  const Block* block = block_of(storage);
  if (!block) return empty_host_storage();
  void* contents = metal::contents(block->buffer);
  metal::retain(block->buffer);
  c10::DataPtr data(contents, block->buffer, &metal::release, c10::Device(c10::DeviceType::CPU));
  return at::Storage(at::Storage::use_byte_size_t(), block->length, std::move(data),
                     /*allocator=*/nullptr, /*resizable=*/false);
}

bool pending() {
  return metal::pending() || any_unfinished_copies();
}

py::dict kernel_counters(const softmetal::KernelCounters& kernel) {
  py::dict counts;
  counts["dispatches"] = kernel.dispatches;
  counts["threadgroups"] = kernel.threadgroups;
  counts["threads"] = kernel.threads;
  counts["encoders"] = kernel.encoders;
  counts["declared"] = kernel.declared;
  return counts;
}

// softmetal counts what reaches the device, we count why.
py::dict all_counters() {
  const softmetal::Counters device = softmetal::counters();
  const Counters& own = counters();
  py::dict all;
  all["dispatches"] = device.dispatches;
  all["threadgroups"] = device.threadgroups;
  all["threads"] = device.threads;
  all["encoders"] = device.encoders;
  all["declared"] = device.declared;
  all["use_resource_calls"] = device.use_resource_calls;
  all["bytes_set"] = device.bytes_set;
  all["command_buffers"] = device.command_buffers;
  all["commits"] = device.commits - own.fallback_commits.load();
  all["waits"] = own.waits.load();
  all["host_reads"] = own.host_reads.load();
  all["host_writes"] = own.host_writes.load();
  all["fallback_ops"] = own.fallback_ops.load();
  all["fallback_commits"] = own.fallback_commits.load();
  all["fallback_waits"] = own.fallback_waits.load();
  py::dict kernels;
  for (const auto& [name, counts] : device.kernels)
    kernels[py::str(name)] = kernel_counters(counts);
  all["kernels"] = kernels;
  return all;
}

py::dict op_table() {
  py::dict table;
  for (const auto& [name, counts] : op_counts()) {
    table[py::str(name)] = py::make_tuple(counts.calls, counts.bytes_in, counts.bytes_out,
                                          counts.host_reads, counts.waits);
  }
  return table;
}

void reset_counters() {
  counters().reset();
  reset_op_counts();
  softmetal::reset_counters();
}

void bind_shaders(py::module_& m) {
  py::class_<metal::Kernel, std::shared_ptr<metal::Kernel>>(m, "Kernel")
      .def_property_readonly("max_threads_per_threadgroup",
                             &metal::Kernel::max_threads_per_threadgroup)
      .def_property_readonly("thread_execution_width", &metal::Kernel::thread_execution_width)
      .def_property_readonly("static_threadgroup_memory_length",
                             &metal::Kernel::static_threadgroup_memory_length)
      .def(
          "dispatch",
          [](const metal::Kernel& kernel, const py::sequence& arguments, const metal::Size& threads,
             const metal::Size& group_size, const py::object& casts) {
            const auto packed = pack_arguments(arguments, casts);
            py::gil_scoped_release no_gil;
            kernel.dispatch(packed, threads, group_size);
          },
          py::arg("arguments"), py::arg("threads"), py::arg("group_size"), py::arg("casts"));
  py::class_<metal::ShaderLibrary>(m, "ShaderLibrary")
      .def(py::init<const std::string&>(), py::call_guard<py::gil_scoped_release>())
      .def("function_names", &metal::ShaderLibrary::function_names)
      .def("kernel", &metal::ShaderLibrary::kernel);
}

void bind_host_code(py::module_& m) {
  const auto unlocked = py::call_guard<py::gil_scoped_release>();
  py::module_ code = m.def_submodule("host_code");
  code.def("is_available", &host_code::is_available);
  code.def("synchronize", &host_code::synchronize, unlocked);
  code.def("commit", &host_code::commit, unlocked);
  code.def("commit_inside_the_queue", &host_code::commit_inside_the_queue, unlocked);
  code.def("add_one_bindless", &host_code::add_one_bindless, py::arg("buffer"), py::arg("count"),
           py::arg("declare") = true, py::arg("keep") = true, unlocked);
  code.def("leave_encoder_open", &host_code::leave_encoder_open, unlocked);
  code.def("commit_pytorchs_buffer", &host_code::commit_pytorchs_buffer, unlocked);
  code.def("throw_carried", &host_code::throw_carried, unlocked);
  code.def("sync_inside_the_queue", &host_code::sync_inside_the_queue, unlocked);
}

}  // namespace

PYBIND11_MODULE(_C, m) {
  install_host_allocator();
  c10::SetAllocator(c10::DeviceType::MPS, mps_allocator());
  install_hooks();

  m.def("device_name", &metal::device_name);
  m.def("host_view", &host_view, py::arg("tensor"), py::arg("wait") = true);
  m.def("buffer_info", &buffer_info, py::arg("tensor"));
  m.def("host_alias_storage", [](const py::object& storage) {
    return py::reinterpret_steal<py::object>(torch::createPyObject(host_alias_storage(storage)));
  });
  m.def("pending", &pending);
  m.def("counters", &all_counters);
  m.def("op_counts", &op_table);
  m.def("reset_counters", &reset_counters);
  bind_shaders(m);
  bind_host_code(m);
}

}  // namespace softmps
