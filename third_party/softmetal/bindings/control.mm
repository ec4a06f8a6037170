// What <softmetal/softmetal.h> adds to Metal: counters, settings, memory.
#include "softmetal/softmetal.h"

#include "wrappers.h"

namespace softmetal::bindings {
namespace {

py::dict to_dict(const KernelCounters& k) {
  py::dict d;
  d["dispatches"] = k.dispatches;
  d["threadgroups"] = k.threadgroups;
  d["threads"] = k.threads;
  d["encoders"] = k.encoders;
  d["declared"] = k.declared;
  return d;
}

py::dict read_counters() {
  const Counters c = counters();
  py::dict d;
  d["command_buffers"] = c.command_buffers;
  d["commits"] = c.commits;
  d["waits"] = c.waits;
  d["encoders"] = c.encoders;
  d["dispatches"] = c.dispatches;
  d["threadgroups"] = c.threadgroups;
  d["threads"] = c.threads;
  d["use_resource_calls"] = c.use_resource_calls;
  d["declared"] = c.declared;
  d["bytes_set"] = c.bytes_set;
  d["buffers"] = c.buffers;
  d["libraries_compiled"] = c.libraries_compiled;
  d["barriers"] = c.barriers;
  d["simd_ops"] = c.simd_ops;
  d["divergent_simd_ops"] = c.divergent_simd_ops;
  d["switches"] = c.switches;
  py::dict kernels;
  for (const auto& [name, one] : c.kernels) kernels[py::str(name)] = to_dict(one);
  d["kernels"] = kernels;
  return d;
}

}  // namespace

void bind_control(py::module_& m) {
  m.def("counters", &read_counters);
  m.def("reset_counters", &reset_counters);
  m.def("trim", &trim, "Gives the memory of released buffers back to the system; bytes.");
  m.def("worker_threads", &worker_threads);
  m.def("set_compiler", &set_compiler, py::arg("command"));

  py::enum_<Guard>(m, "Guard").value("BACK", Guard::back).value("FRONT", Guard::front);
  py::enum_<Order>(m, "Order")
      .value("FORWARD", Order::forward)
      .value("REVERSE", Order::reverse)
      .value("SHUFFLED", Order::shuffled);
  py::class_<Settings>(m, "Settings", "See <softmetal/softmetal.h>.")
      .def(py::init<>())
      .def_readwrite("strict", &Settings::strict)
      .def_readwrite("flush_subnormals", &Settings::flush_subnormals)
      .def_readwrite("max_threads", &Settings::max_threads)
      .def_readwrite("alignment", &Settings::alignment)
      .def_readwrite("guard", &Settings::guard)
      .def_readwrite("order", &Settings::order)
      .def_readwrite("seed", &Settings::seed)
      .def_readwrite("delay", &Settings::delay)
      .def_readwrite("workers", &Settings::workers)
      .def_readwrite("poison", &Settings::poison)
      .def_readwrite("hide_contents", &Settings::hide_contents)
      .def_readwrite("trace", &Settings::trace)
      .def_readwrite("fail_on_race", &Settings::fail_on_race)
      .def_readwrite("timeout", &Settings::timeout);
  m.def("settings", &settings);
  m.def("set_settings", &set_settings, py::arg("settings"));
}

}  // namespace softmetal::bindings
