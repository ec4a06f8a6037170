// torch.mps.compile_shader: libraries from source, and kernels that run on PyTorch's stream.
#import <Foundation/Foundation.h>
#import <Metal/Metal.h>

#include <cstdlib>
#include <exception>
#include <stdexcept>

#include "device.h"
#include "stream.h"

namespace softmps::metal {
namespace {

[[noreturn]] void fail(const std::string& what, NSError* error) {
  throw std::runtime_error(what + (error ? [[error localizedDescription] UTF8String] : "unknown"));
}

// The options that PyTorch compiles with on macOS 15 (never nil: that would be fast math).
MTLCompileOptions* compile_options() {
  const char* setting = std::getenv("PYTORCH_MPS_FAST_MATH");
  const bool fast = setting && std::atoi(setting) == 1;
  MTLCompileOptions* options = [[MTLCompileOptions new] autorelease];
  options.languageVersion = MTLLanguageVersion3_1;
  options.mathMode = fast ? MTLMathModeFast : MTLMathModeSafe;
  options.mathFloatingPointFunctions =
      fast ? MTLMathFloatingPointFunctionsFast : MTLMathFloatingPointFunctionsPrecise;
  return options;
}

// Runs `body` on PyTorch's dispatch queue. No exception may leave a dispatch_sync block.
template <class Body>
void run_on_queue(Body&& body) {
  std::exception_ptr error;
  std::exception_ptr* carried = &error;
  auto* call = &body;
  dispatch_sync(Stream::get().queue(), ^{
    @autoreleasepool {
      try {
        (*call)();
      } catch (...) {
        *carried = std::current_exception();
      }
    }
  });
  if (error) std::rethrow_exception(error);
}

MTLSize metal_size(const Size& size) {
  return MTLSizeMake(size[0], size.size() > 1 ? size[1] : 1, size.size() > 2 ? size[2] : 1);
}

}  // namespace

ShaderLibrary::ShaderLibrary(const std::string& source) {
  @autoreleasepool {
    NSError* error = nil;
    NSString* text = [NSString stringWithUTF8String:source.c_str()];
    id<MTLLibrary> library = [device() newLibraryWithSource:text
                                                    options:compile_options()
                                                      error:&error];
    if (!library) fail("Failed to create metal library, error: ", error);
    library_ = (void*)library;
  }
}

ShaderLibrary::~ShaderLibrary() {
  release(library_);
}

std::vector<std::string> ShaderLibrary::function_names() const {
  @autoreleasepool {
    std::vector<std::string> names;
    for (NSString* name in [(id<MTLLibrary>)library_ functionNames]) {
      names.push_back([name UTF8String]);
    }
    return names;
  }
}

std::shared_ptr<Kernel> ShaderLibrary::kernel(const std::string& name) const {
  @autoreleasepool {
    NSString* text = [NSString stringWithUTF8String:name.c_str()];
    id<MTLFunction> function = [(id<MTLLibrary>)library_ newFunctionWithName:text];
    if (!function) {
      throw std::runtime_error("Failed to create function state object for: " + name);
    }
    NSError* error = nil;
    id<MTLComputePipelineState> pipeline = [device() newComputePipelineStateWithFunction:function
                                                                                   error:&error];
    [(id)function release];
    if (!pipeline) fail("Failed to created pipeline state object, error: ", error);
    return std::make_shared<Kernel>((void*)pipeline);
  }
}

Kernel::~Kernel() {
  release(pipeline_);
}

uint64_t Kernel::max_threads_per_threadgroup() const {
  return [(id<MTLComputePipelineState>)pipeline_ maxTotalThreadsPerThreadgroup];
}

uint64_t Kernel::thread_execution_width() const {
  return [(id<MTLComputePipelineState>)pipeline_ threadExecutionWidth];
}

uint64_t Kernel::static_threadgroup_memory_length() const {
  return [(id<MTLComputePipelineState>)pipeline_ staticThreadgroupMemoryLength];
}

void Kernel::dispatch(const std::vector<Argument>& arguments, const Size& threads,
                      const Size& group_size) const {
  auto encode = [&](id<MTLComputeCommandEncoder> encoder) {
    [encoder setComputePipelineState:(id<MTLComputePipelineState>)pipeline_];
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (auto* bytes = std::get_if<Bytes>(&arguments[i])) {
        [encoder setBytes:bytes->data() length:bytes->size() atIndex:i];
      } else {
        const auto& argument = std::get<BufferArgument>(arguments[i]);
        [encoder setBuffer:(id<MTLBuffer>)argument.buffer offset:argument.offset atIndex:i];
      }
    }
    [encoder dispatchThreads:metal_size(threads) threadsPerThreadgroup:metal_size(group_size)];
  };
  run_on_queue([&] { Stream::get().encode(encode); });
}

}  // namespace softmps::metal
