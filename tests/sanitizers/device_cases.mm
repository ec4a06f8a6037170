// One thread of the host: buffers, kernels, errors of both kinds, memory that goes back.
#include <softmetal/softmetal.h>

#include <memory>
#include <vector>

#include "exercise.h"

namespace {

// Encodes one dispatch with `bind`, runs it, returns the error's text or "".
std::string run(Host& host, const char* kernel, MTLSize grid, MTLSize group,
                const std::function<void(id<MTLComputeCommandEncoder>)>& bind) {
  Owned<id<MTLComputePipelineState>> pipeline(host.pipeline(kernel));
  id<MTLCommandBuffer> commands = [host.queue.get() commandBuffer];
  id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
  [encoder setComputePipelineState:pipeline];
  bind(encoder);
  [encoder dispatchThreads:grid threadsPerThreadgroup:group];
  [encoder endEncoding];
  [commands commit];
  [commands waitUntilCompleted];
  NSError* error = [commands error];
  return error ? [[error localizedDescription] UTF8String] : "";
}

void arithmetic() {
  Host host;
  for (size_t n : {1, 31, 1000, 70001}) {
    Owned<id<MTLBuffer>> x(host.floats(n, 1));
    const std::string error = run(
        host, "add_one", MTLSizeMake(n, 1, 1), MTLSizeMake(64, 1, 1),
        [&](id<MTLComputeCommandEncoder> encoder) { [encoder setBuffer:x offset:0 atIndex:0]; });
    require(error.empty(), error);
    require(floats_of(x)[0] == 2 && floats_of(x)[n - 1] == 2, "add_one computed something else");
  }
}

void barriers_and_lanes() {
  Host host;
  Owned<id<MTLBuffer>> x(host.floats(8 * 256, 1));
  const std::string error = run(host, "group_sum", MTLSizeMake(8 * 256, 1, 1),
                                MTLSizeMake(256, 1, 1), [&](id<MTLComputeCommandEncoder> encoder) {
                                  [encoder setBuffer:x offset:0 atIndex:0];
                                  [encoder setThreadgroupMemoryLength:256 * sizeof(float)
                                                              atIndex:0];
                                });
  require(error.empty(), error);
  require(floats_of(x)[5] == 257, "group_sum computed something else");
}

void bindless_tables() {
  Host host;
  struct Row {
    uint64_t data, length;
  };
  Owned<id<MTLBuffer>> table([host.device.get() newBufferWithLength:40 * sizeof(Row) options:0]);
  std::vector<std::unique_ptr<Owned<id<MTLBuffer>>>> rows;
  for (size_t i = 0; i < 40; ++i) {
    rows.push_back(std::make_unique<Owned<id<MTLBuffer>>>(host.floats(i + 1, 2)));
    static_cast<Row*>([table.get() contents])[i] = {[rows[i]->get() gpuAddress], i + 1};
  }
  const float a = 3;
  const std::string error =
      run(host, "saxpy", MTLSizeMake(40, 40, 1), MTLSizeMake(8, 8, 1),
          [&](id<MTLComputeCommandEncoder> encoder) {
            [encoder setBuffer:table offset:0 atIndex:0];
            [encoder setBytes:&a length:sizeof a atIndex:1];
            for (const auto& row : rows) {
              [encoder useResource:row->get() usage:MTLResourceUsageRead | MTLResourceUsageWrite];
            }
          });
  require(error.empty(), error);
  require(floats_of(rows[39]->get())[39] == 7, "saxpy computed something else");
}

void function_constants() {
  Host host;
  for (float factor : {2.0f, 5.0f}) {
    Owned<MTLFunctionConstantValues*> values([[MTLFunctionConstantValues alloc] init]);
    [values.get() setConstantValue:&factor type:MTLDataTypeFloat atIndex:0];
    NSError* error = nil;
    Owned<id<MTLFunction>> function([host.library.get() newFunctionWithName:@"scale"
                                                             constantValues:values
                                                                      error:&error]);
    require(function.get() != nil, "no function");
    Owned<id<MTLComputePipelineState>> pipeline(
        [host.device.get() newComputePipelineStateWithFunction:function error:&error]);
    Owned<id<MTLBuffer>> x(host.floats(100, 3));
    id<MTLCommandBuffer> commands = [host.queue.get() commandBuffer];
    id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
    [encoder setComputePipelineState:pipeline];
    [encoder setBuffer:x offset:0 atIndex:0];
    [encoder dispatchThreads:MTLSizeMake(100, 1, 1) threadsPerThreadgroup:MTLSizeMake(32, 1, 1)];
    [encoder endEncoding];
    [commands commit];
    [commands waitUntilCompleted];
    require(floats_of(x)[99] == 3 * factor, "scale computed something else");
  }
}

// A fault leaves the kernel by a jump out of a signal handler, from the worker's own stack.
void faults_in_loops() {
  Host host;
  for (int round = 0; round < 20; ++round) {
    Owned<id<MTLBuffer>> x(host.floats(64, 0));
    const std::string error = run(
        host, "add_one", MTLSizeMake(100000, 1, 1), MTLSizeMake(64, 1, 1),
        [&](id<MTLComputeCommandEncoder> encoder) { [encoder setBuffer:x offset:0 atIndex:0]; });
    require(error.find("out-of-bounds") != std::string::npos, "add_one: '" + error + "'");
  }
}

// The same from the stack of a fiber, for kernels with barriers.
void faults_in_fibers() {
  Host host;
  for (int round = 0; round < 20; ++round) {
    Owned<id<MTLBuffer>> x(host.floats(64, 0));
    for (int where : {0, 1 << 20, -(1 << 20)}) {
      const std::string error = run(host, "poke", MTLSizeMake(64, 1, 1), MTLSizeMake(64, 1, 1),
                                    [&](id<MTLComputeCommandEncoder> encoder) {
                                      [encoder setBuffer:x offset:0 atIndex:0];
                                      [encoder setBytes:&where length:sizeof where atIndex:1];
                                    });
      require(error.empty() == (where == 0), "poke: '" + error + "'");
    }
  }
}

void a_kernel_that_never_ends() {
  Host host;
  Owned<id<MTLBuffer>> x(host.floats(1, 0));
  softmetal::Settings before = softmetal::settings(), short_time = before;
  short_time.timeout = 1;
  softmetal::set_settings(short_time);
  const std::string error =
      run(host, "hang", MTLSizeMake(64, 1, 1), MTLSizeMake(1, 1, 1),
          [&](id<MTLComputeCommandEncoder> encoder) { [encoder setBuffer:x offset:0 atIndex:0]; });
  softmetal::set_settings(before);
  require(!error.empty(), "a kernel that never ends has ended");
}

void misuse_is_refused() {
  Host host;
  const auto refused = [](const std::function<void()>& call) {
    try {
      call();
    } catch (const softmetal::ValidationError&) {
      return;
    }
    throw std::runtime_error("misuse was not refused");
  };
  refused([&] { [host.device.get() newBufferWithLength:0 options:0]; });
  id<MTLCommandBuffer> commands = [host.queue.get() commandBuffer];
  id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
  refused([&] { [commands commit]; });
  refused([&] { [commands computeCommandEncoder]; });
  refused([&] { [encoder setBuffer:nil offset:4 atIndex:77]; });
  refused([&] {
    [encoder dispatchThreads:MTLSizeMake(1, 1, 1) threadsPerThreadgroup:MTLSizeMake(1, 1, 1)];
  });
  [encoder endEncoding];
  refused([&] { [commands waitUntilCompleted]; });
  [commands commit];
  refused([&] { [commands commit]; });
  [commands waitUntilCompleted];
}

void source_that_does_not_compile() {
  Host host;
  try {
    Owned<id<MTLLibrary>> library(host.compile("kernel void broken(device float* x) { y = 1; }"));
  } catch (const std::runtime_error& error) {
    require(std::string(error.what()).find("program_source:1") != std::string::npos, error.what());
    return;
  }
  throw std::runtime_error("it compiled");
}

void memory_is_given_back() {
  Host host;
  for (int round = 0; round < 200; ++round) {
    Owned<id<MTLBuffer>> small(host.floats(1 + round * 7, 1));
    Owned<id<MTLBuffer>> large(host.floats(100000, 1));
    [small.get() setLabel:@"a label"];
  }
  require(softmetal::trim() > 0, "nothing was given back");
}

void tracing() {
  Host host;
  softmetal::Settings before = softmetal::settings(), traced = before;
  traced.trace = true;
  softmetal::set_settings(traced);
  {
    Host again;  // libraries are compiled anew for tracing
    Owned<id<MTLBuffer>> x(again.floats(4 * 256, 1));
    const std::string error =
        run(again, "group_sum", MTLSizeMake(4 * 256, 1, 1), MTLSizeMake(256, 1, 1),
            [&](id<MTLComputeCommandEncoder> encoder) {
              [encoder setBuffer:x offset:0 atIndex:0];
              [encoder setThreadgroupMemoryLength:256 * sizeof(float) atIndex:0];
            });
    require(error.empty(), error);
  }
  require(softmetal::trace().kernels.count("group_sum") == 1, "group_sum was not traced");
  softmetal::reset_trace();
  softmetal::set_settings(before);
}

}  // namespace

void add_device_cases(Cases& cases) {
  cases["arithmetic"] = arithmetic;
  cases["barriers_and_lanes"] = barriers_and_lanes;
  cases["bindless_tables"] = bindless_tables;
  cases["function_constants"] = function_constants;
  cases["faults_in_fibers"] = faults_in_fibers;
  cases["faults_in_loops"] = faults_in_loops;
  cases["a_kernel_that_never_ends"] = a_kernel_that_never_ends;
  cases["misuse_is_refused"] = misuse_is_refused;
  cases["source_that_does_not_compile"] = source_that_does_not_compile;
  cases["memory_is_given_back"] = memory_is_given_back;
  cases["tracing"] = tracing;
}
