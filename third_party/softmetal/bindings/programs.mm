// Libraries, functions, pipelines and their options.
#include "wrappers.h"

namespace softmetal::bindings {
namespace {

py::list function_names(const Library& library) {
  return pooled([&] {
    py::list names;
    for (NSString* name in [library.get() functionNames]) names.append(from_ns(name));
    return names;
  });
}

py::object new_function(const Library& library, const std::string& name,
                        const ConstantValues* values) {
  return pooled([&]() -> py::object {
    if (!values) {
      id<MTLFunction> function = [library.get() newFunctionWithName:to_ns(name)];
      return function ? py::cast(adopt<Function>(function)) : py::object(py::none());
    }
    NSError* error = nil;
    id<MTLFunction> function = [library.get() newFunctionWithName:to_ns(name)
                                                   constantValues:values->get()
                                                            error:&error];
    if (!function) raise(error);
    return py::cast(adopt<Function>(function));
  });
}

void set_macros(const CompileOptions& options, const std::map<std::string, std::string>& macros) {
  pooled([&] {
    NSMutableDictionary* dictionary = [NSMutableDictionary dictionary];
    for (const auto& [name, value] : macros) {
      [dictionary setObject:to_ns(value) forKey:to_ns(name)];
    }
    [options.get() setPreprocessorMacros:dictionary];
  });
}

void set_constant(const ConstantValues& values, const py::buffer& value, MTLDataType type,
                  const py::object& where) {
  pooled([&] {
    const py::buffer_info view = value.request();
    if (py::isinstance<py::str>(where)) {
      [values.get() setConstantValue:view.ptr type:type withName:to_ns(where.cast<std::string>())];
    } else {
      [values.get() setConstantValue:view.ptr type:type atIndex:where.cast<NSUInteger>()];
    }
  });
}

}  // namespace

#define PROPERTY(Wrapper, Type, getter, setter)            \
  [](const Wrapper& w) { return Type([w.get() getter]); }, \
      [](const Wrapper& w, Type value) { [w.get() setter:value]; }

void bind_programs(py::module_& m) {
  py::class_<CompileOptions>(m, "CompileOptions", "MTLCompileOptions, with Apple's defaults.")
      .def(py::init([] { return adopt<CompileOptions>([MTLCompileOptions new]); }))
      .def_property("language_version", PROPERTY(CompileOptions, MTLLanguageVersion,
                                                 languageVersion, setLanguageVersion))
      .def_property("math_mode", PROPERTY(CompileOptions, MTLMathMode, mathMode, setMathMode))
      .def_property("math_floating_point_functions",
                    PROPERTY(CompileOptions, MTLMathFloatingPointFunctions,
                             mathFloatingPointFunctions, setMathFloatingPointFunctions))
      .def_property("fast_math_enabled",
                    PROPERTY(CompileOptions, bool, fastMathEnabled, setFastMathEnabled))
      .def("set_preprocessor_macros", &set_macros, py::arg("macros"));

  py::class_<ConstantValues>(m, "FunctionConstantValues")
      .def(py::init([] { return adopt<ConstantValues>([MTLFunctionConstantValues new]); }))
      .def("set_constant_value", &set_constant, py::arg("value"), py::arg("type"), py::arg("where"),
           "`value` is bytes-like; `where` an index or a name.")
      .def("reset", [](const ConstantValues& v) { [v.get() reset]; });

  py::class_<Function>(m, "Function")
      .def_property_readonly(
          "name", [](const Function& f) { return pooled([&] { return from_ns([f.get() name]); }); })
      .def_property(SOFTMETAL_LABEL(Function));

  py::class_<Library>(m, "Library")
      .def_property_readonly("function_names", &function_names)
      .def("new_function_with_name", &new_function, py::arg("name"),
           py::arg("constant_values") = nullptr, "None where there is no such function.")
      .def_property(SOFTMETAL_LABEL(Library));

  py::class_<PipelineDescriptor>(m, "ComputePipelineDescriptor")
      .def(py::init([] { return adopt<PipelineDescriptor>([MTLComputePipelineDescriptor new]); }))
      .def("set_compute_function",
           [](const PipelineDescriptor& d, const Function* f) {
             [d.get() setComputeFunction:object_of(f)];
           })
      .def_property("max_total_threads_per_threadgroup",
                    PROPERTY(PipelineDescriptor, NSUInteger, maxTotalThreadsPerThreadgroup,
                             setMaxTotalThreadsPerThreadgroup))
      .def_property(
          "thread_group_size_is_multiple_of_thread_execution_width",
          PROPERTY(PipelineDescriptor, bool, threadGroupSizeIsMultipleOfThreadExecutionWidth,
                   setThreadGroupSizeIsMultipleOfThreadExecutionWidth))
      .def_property(SOFTMETAL_LABEL(PipelineDescriptor));

  py::class_<Pipeline>(m, "ComputePipelineState")
      .def_property_readonly(
          "max_total_threads_per_threadgroup",
          [](const Pipeline& p) { return [p.get() maxTotalThreadsPerThreadgroup]; })
      .def_property_readonly("thread_execution_width",
                             [](const Pipeline& p) { return [p.get() threadExecutionWidth]; })
      .def_property_readonly(
          "static_threadgroup_memory_length",
          [](const Pipeline& p) { return [p.get() staticThreadgroupMemoryLength]; })
      .def_property_readonly("label", [](const Pipeline& p) {
        return pooled([&] { return from_ns([p.get() label]); });
      });
}

}  // namespace softmetal::bindings
