// mps_ds.softmetal._C: Metal's object model in Python, method for method. Names are the selectors
// in Python's spelling; nil is None; errors are exceptions.
#include "wrappers.h"

#include "softmetal/softmetal.h"

namespace softmetal::bindings {
namespace {

PyObject* g_metal_error = nullptr;

}  // namespace

py::object make_metal_error(NSError* error) {
  py::object instance =
      py::reinterpret_borrow<py::object>(g_metal_error)(from_ns([error localizedDescription]));
  instance.attr("domain") = from_ns([error domain]);
  instance.attr("code") = [error code];
  return instance;
}

void raise(NSError* error) {
  PyErr_SetObject(g_metal_error, make_metal_error(error).ptr());
  throw py::error_already_set();
}

}  // namespace softmetal::bindings

PYBIND11_MODULE(_C, m) {
  namespace bindings = softmetal::bindings;
  m.doc() = "Metal's object model on the software Metal device.";
  bindings::g_metal_error = PyErr_NewExceptionWithDoc(
      "mps_ds.softmetal.MetalError", "An NSError: its description, `domain` and `code`.",
      PyExc_RuntimeError, nullptr);
  m.attr("MetalError") = pybind11::handle(bindings::g_metal_error);
  // Local: in other modules of the process it stays what any std::logic_error is.
  pybind11::register_local_exception<softmetal::ValidationError>(m, "ValidationError",
                                                                 PyExc_ValueError)
      .doc() = "Misuse of the API, seen at the call.";
  bindings::bind_enums(m);
  bindings::bind_programs(m);
  bindings::bind_commands(m);
  bindings::bind_device(m);
  bindings::bind_control(m);
  bindings::bind_tracing(m);
  pybind11::module_ host = m.def_submodule("host_code", "Objective-C++ host code, for tests.");
  bindings::bind_host_code(host);
}
