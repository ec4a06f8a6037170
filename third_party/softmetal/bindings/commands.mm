// Queues, command buffers and encoders.
#include "wrappers.h"

#include <memory>
#include <vector>

namespace softmetal::bindings {
namespace {

// A Python function inside a block, which may be called and destroyed on any thread.
std::shared_ptr<py::function> shared(py::function function) {
  return {new py::function(std::move(function)), [](py::function* f) {
            py::gil_scoped_acquire gil;
            delete f;
          }};
}

void call(const py::function& function, id<MTLCommandBuffer> buffer) {
  py::gil_scoped_acquire gil;
  try {
    function(retain<CommandBuffer>(buffer));
  } catch (py::error_already_set& e) {
    e.discard_as_unraisable("a handler of a command buffer");
  }
}

py::object new_command_buffer(const Queue& queue, bool retained) {
  return pooled([&]() -> py::object {
    id<MTLCommandBuffer> buffer;
    {
      py::gil_scoped_release no_gil;  // blocks while the queue is full
      buffer = retained ? [queue.get() commandBuffer]
                        : [queue.get() commandBufferWithUnretainedReferences];
    }
    return py::cast(retain<CommandBuffer>(buffer));
  });
}

template <class F>
void without_gil(F f) {
  py::gil_scoped_release no_gil;
  pooled(f);
}

std::vector<id<MTLResource>> to_resources(const std::vector<const Buffer*>& buffers) {
  std::vector<id<MTLResource>> resources;
  for (const Buffer* buffer : buffers) resources.push_back(object_of(buffer));
  return resources;
}

void use_resources(const Encoder& encoder, const std::vector<const Buffer*>& buffers,
                   NSUInteger usage) {
  const auto resources = to_resources(buffers);
  pooled([&] { [encoder.get() useResources:resources.data() count:resources.size() usage:usage]; });
}

void memory_barrier_with_resources(const Encoder& encoder,
                                   const std::vector<const Buffer*>& buffers) {
  const auto resources = to_resources(buffers);
  pooled(
      [&] { [encoder.get() memoryBarrierWithResources:resources.data() count:resources.size()]; });
}

void bind_command_buffer(py::module_& m) {
  py::class_<CommandBuffer>(m, "CommandBuffer")
      .def(
          "compute_command_encoder",
          [](const CommandBuffer& b, MTLDispatchType type) {
            return pooled([&] {
              return retain<Encoder>([b.get() computeCommandEncoderWithDispatchType:type]);
            });
          },
          py::arg("dispatch_type") = MTLDispatchTypeSerial)
      .def("enqueue", [](const CommandBuffer& b) { pooled([&] { [b.get() enqueue]; }); })
      .def("commit", [](const CommandBuffer& b) { pooled([&] { [b.get() commit]; }); })
      .def("wait_until_scheduled",
           [](const CommandBuffer& b) { without_gil([&] { [b.get() waitUntilScheduled]; }); })
      .def("wait_until_completed",
           [](const CommandBuffer& b) { without_gil([&] { [b.get() waitUntilCompleted]; }); })
      .def(
          "add_completed_handler",
          [](const CommandBuffer& b, py::function function) {
            pooled([&] {
              auto held = shared(std::move(function));  // not outside: a block copies no reference
              [b.get() addCompletedHandler:^(id<MTLCommandBuffer> done) {
                call(*held, done);
              }];
            });
          },
          py::arg("handler"))
      .def(
          "add_scheduled_handler",
          [](const CommandBuffer& b, py::function function) {
            pooled([&] {
              auto held = shared(std::move(function));  // not outside: a block copies no reference
              [b.get() addScheduledHandler:^(id<MTLCommandBuffer> started) {
                call(*held, started);
              }];
            });
          },
          py::arg("handler"))
      .def_property_readonly("status", [](const CommandBuffer& b) { return [b.get() status]; })
      .def_property_readonly("error",
                             [](const CommandBuffer& b) {
                               return pooled([&]() -> py::object {
                                 NSError* error = [b.get() error];
                                 if (!error) return py::none();
                                 return make_metal_error(error);
                               });
                             })
      .def_property_readonly("gpu_start_time",
                             [](const CommandBuffer& b) { return [b.get() GPUStartTime]; })
      .def_property_readonly("gpu_end_time",
                             [](const CommandBuffer& b) { return [b.get() GPUEndTime]; })
      .def_property_readonly(
          "retained_references",
          [](const CommandBuffer& b) { return bool([b.get() retainedReferences]); })
      .def("push_debug_group",
           [](const CommandBuffer& b, const std::string& text) {
             pooled([&] { [b.get() pushDebugGroup:to_ns(text)]; });
           })
      .def("pop_debug_group",
           [](const CommandBuffer& b) { pooled([&] { [b.get() popDebugGroup]; }); })
      .def_property(SOFTMETAL_LABEL(CommandBuffer));
}

void bind_encoder(py::module_& m) {
  py::class_<Encoder>(m, "ComputeCommandEncoder")
      .def(
          "set_compute_pipeline_state",
          [](const Encoder& e, const Pipeline* pipeline) {
            pooled([&] { [e.get() setComputePipelineState:object_of(pipeline)]; });
          },
          py::arg("state").none(true))
      .def(
          "set_buffer",
          [](const Encoder& e, const Buffer* buffer, NSUInteger offset, NSUInteger index) {
            pooled([&] { [e.get() setBuffer:object_of(buffer) offset:offset atIndex:index]; });
          },
          py::arg("buffer").none(true), py::arg("offset"), py::arg("index"))
      .def(
          "set_buffer_offset",
          [](const Encoder& e, NSUInteger offset, NSUInteger index) {
            pooled([&] { [e.get() setBufferOffset:offset atIndex:index]; });
          },
          py::arg("offset"), py::arg("index"))
      .def(
          "set_bytes",
          [](const Encoder& e, const py::buffer& data, NSUInteger index) {
            pooled([&] {
              const py::buffer_info view = data.request();
              [e.get() setBytes:view.ptr length:view.size * view.itemsize atIndex:index];
            });
          },
          py::arg("data"), py::arg("index"))
      .def(
          "set_threadgroup_memory_length",
          [](const Encoder& e, NSUInteger length, NSUInteger index) {
            pooled([&] { [e.get() setThreadgroupMemoryLength:length atIndex:index]; });
          },
          py::arg("length"), py::arg("index"))
      .def(
          "use_resource",
          [](const Encoder& e, const Buffer* buffer, NSUInteger usage) {
            pooled([&] { [e.get() useResource:object_of(buffer) usage:usage]; });
          },
          py::arg("resource").none(true), py::arg("usage"))
      .def("use_resources", &use_resources, py::arg("resources"), py::arg("usage"))
      .def(
          "dispatch_threads",
          [](const Encoder& e, const Size& grid, const Size& group) {
            pooled([&] {
              [e.get() dispatchThreads:to_size(grid) threadsPerThreadgroup:to_size(group)];
            });
          },
          py::arg("threads_per_grid"), py::arg("threads_per_threadgroup"))
      .def(
          "dispatch_threadgroups",
          [](const Encoder& e, const Size& groups, const Size& group) {
            pooled([&] {
              [e.get() dispatchThreadgroups:to_size(groups) threadsPerThreadgroup:to_size(group)];
            });
          },
          py::arg("threadgroups_per_grid"), py::arg("threads_per_threadgroup"))
      .def("memory_barrier",
           [](const Encoder& e) {
             pooled([&] { [e.get() memoryBarrierWithScope:MTLBarrierScopeBuffers]; });
           })
      .def("memory_barrier_with_resources", &memory_barrier_with_resources, py::arg("resources"))
      .def("end_encoding", [](const Encoder& e) { pooled([&] { [e.get() endEncoding]; }); })
      .def("push_debug_group",
           [](const Encoder& e, const std::string& text) {
             pooled([&] { [e.get() pushDebugGroup:to_ns(text)]; });
           })
      .def("pop_debug_group", [](const Encoder& e) { pooled([&] { [e.get() popDebugGroup]; }); })
      .def_property_readonly("dispatch_type",
                             [](const Encoder& e) { return [e.get() dispatchType]; })
      .def_property(SOFTMETAL_LABEL(Encoder));
}

}  // namespace

void bind_commands(py::module_& m) {
  bind_encoder(m);
  bind_command_buffer(m);
  py::class_<Queue>(m, "CommandQueue")
      .def("command_buffer", [](const Queue& q) { return new_command_buffer(q, true); })
      .def("command_buffer_with_unretained_references",
           [](const Queue& q) { return new_command_buffer(q, false); })
      .def_property(SOFTMETAL_LABEL(Queue));
}

}  // namespace softmetal::bindings
