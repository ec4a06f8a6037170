#include <Block.h>

#include "wrappers.h"

namespace softmetal::bindings {
namespace {

Buffer adopt_buffer(id<MTLBuffer> buffer) {
  if (!buffer) throw std::bad_alloc();  // MemoryError
  return adopt<Buffer>(buffer);
}

py::buffer_info bytes_of(const Buffer& buffer) {
  return pooled([&] {
    void* contents = [buffer.get() contents];
    if (!contents) throw py::buffer_error("a buffer in private storage has no contents");
    return py::buffer_info(static_cast<uint8_t*>(contents), [buffer.get() length]);
  });
}

// Keeps the Python object whose memory the buffer uses until Metal calls the deallocator, on
// whatever thread that is.
Buffer new_buffer_no_copy(const Device& device, const py::buffer& data, NSUInteger options) {
  return pooled([&] {
    auto* view = new py::buffer_info(data.request(/*writable=*/true));
    const NSUInteger length = view->size * view->itemsize;
    try {
      return adopt_buffer([device.get() newBufferWithBytesNoCopy:view->ptr
                                                          length:length
                                                         options:options
                                                     deallocator:^(void*, NSUInteger) {
                                                       py::gil_scoped_acquire gil;
                                                       delete view;
                                                     }]);
    } catch (...) {
      delete view;
      throw;
    }
  });
}

Library new_library(const Device& device, const std::string& source,
                    const CompileOptions* options) {
  return pooled([&] {
    NSError* error = nil;
    id<MTLLibrary> library;
    {
      py::gil_scoped_release no_gil;
      library = [device.get() newLibraryWithSource:to_ns(source)
                                           options:object_of(options)
                                             error:&error];
    }
    if (!library) raise(error);
    return adopt<Library>(library);
  });
}

Library open_library(const Device& device, const std::string& path) {
  return pooled([&] {
    NSError* error = nil;
    id<MTLLibrary> library = [device.get() newLibraryWithURL:[NSURL fileURLWithPath:to_ns(path)]
                                                       error:&error];
    if (!library) raise(error);
    return adopt<Library>(library);
  });
}

Pipeline new_pipeline(const Device& device, const Function* function) {
  return pooled([&] {
    NSError* error = nil;
    id<MTLComputePipelineState> pipeline =
        [device.get() newComputePipelineStateWithFunction:object_of(function) error:&error];
    if (!pipeline) raise(error);
    return adopt<Pipeline>(pipeline);
  });
}

Pipeline new_pipeline_with_descriptor(const Device& device, const PipelineDescriptor* descriptor) {
  return pooled([&] {
    NSError* error = nil;
    id<MTLComputePipelineState> pipeline =
        [device.get() newComputePipelineStateWithDescriptor:object_of(descriptor)
                                                    options:MTLPipelineOptionNone
                                                 reflection:NULL
                                                      error:&error];
    if (!pipeline) raise(error);
    return adopt<Pipeline>(pipeline);
  });
}

}  // namespace

void bind_device(py::module_& m) {
  py::class_<Buffer>(m, "Buffer", py::buffer_protocol(),
                     "MTLBuffer. numpy.frombuffer(buffer, dtype) is its contents.")
      .def_buffer(&bytes_of)
      .def_property_readonly("length", [](const Buffer& b) { return [b.get() length]; })
      .def_property_readonly("gpu_address", [](const Buffer& b) { return [b.get() gpuAddress]; })
      .def_property_readonly("has_contents",
                             [](const Buffer& b) { return [b.get() contents] != nullptr; })
      .def_property_readonly(
          "contents_address",
          [](const Buffer& b) { return reinterpret_cast<uintptr_t>([b.get() contents]); })
      .def_property_readonly(
          "object_address",
          [](const Buffer& b) { return reinterpret_cast<uintptr_t>((const void*)b.get()); })
      .def_property_readonly("storage_mode", [](const Buffer& b) { return [b.get() storageMode]; })
      .def_property(SOFTMETAL_LABEL(Buffer))
      .def(
          "did_modify_range",
          [](const Buffer& b, NSUInteger location, NSUInteger length) {
            pooled([&] { [b.get() didModifyRange:NSMakeRange(location, length)]; });
          },
          py::arg("location"), py::arg("length"));

  py::class_<Device>(m, "Device", "MTLDevice; Device() is MTLCreateSystemDefaultDevice().")
      .def(py::init([] { return adopt<Device>(MTLCreateSystemDefaultDevice()); }))
      .def_property_readonly(
          "name", [](const Device& d) { return pooled([&] { return from_ns([d.get() name]); }); })
      .def_property_readonly("has_unified_memory",
                             [](const Device& d) { return bool([d.get() hasUnifiedMemory]); })
      .def_property_readonly("max_buffer_length",
                             [](const Device& d) { return [d.get() maxBufferLength]; })
      .def_property_readonly("max_threadgroup_memory_length",
                             [](const Device& d) { return [d.get() maxThreadgroupMemoryLength]; })
      .def_property_readonly("recommended_max_working_set_size",
                             [](const Device& d) { return [d.get() recommendedMaxWorkingSetSize]; })
      .def_property_readonly("current_allocated_size",
                             [](const Device& d) { return [d.get() currentAllocatedSize]; })
      .def(
          "supports_family",
          [](const Device& d, MTLGPUFamily family) {
            return bool([d.get() supportsFamily:family]);
          },
          py::arg("family"))
      .def(
          "new_buffer_with_length",
          [](const Device& d, NSUInteger length, NSUInteger options) {
            return pooled(
                [&] { return adopt_buffer([d.get() newBufferWithLength:length options:options]); });
          },
          py::arg("length"), py::arg("options") = NSUInteger(MTLResourceStorageModeShared))
      .def(
          "new_buffer_with_bytes",
          [](const Device& d, const py::buffer& data, NSUInteger options) {
            return pooled([&] {
              const py::buffer_info view = data.request();
              return adopt_buffer([d.get() newBufferWithBytes:view.ptr
                                                       length:view.size * view.itemsize
                                                      options:options]);
            });
          },
          py::arg("data"), py::arg("options") = NSUInteger(MTLResourceStorageModeShared))
      .def("new_buffer_with_bytes_no_copy", &new_buffer_no_copy, py::arg("data"),
           py::arg("options") = NSUInteger(MTLResourceStorageModeShared))
      .def("new_library_with_source", &new_library, py::arg("source"),
           py::arg("options").none(true))
      .def("new_library_with_url", &open_library, py::arg("path"))
      .def("new_compute_pipeline_state_with_function", &new_pipeline,
           py::arg("function").none(true))
      .def("new_compute_pipeline_state_with_descriptor", &new_pipeline_with_descriptor,
           py::arg("descriptor").none(true))
      .def(
          "new_command_queue",
          [](const Device& d, NSUInteger count) {
            return pooled([&] {
              return adopt<Queue>([d.get() newCommandQueueWithMaxCommandBufferCount:count]);
            });
          },
          py::arg("max_command_buffer_count") = 64);
}

}  // namespace softmetal::bindings
