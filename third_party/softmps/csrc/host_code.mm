// Host code as a native extension for a Mac has it: it knows Apple's API and PyTorch's five
// functions. Each function is one right or wrong way to use them, for
// tests/softmps/test_host_code.py.
#import <Foundation/Foundation.h>
#import <Metal/Metal.h>

#include "host_code.h"

#include <exception>
#include <stdexcept>

// <torch/mps.h>, which PyTorch's Linux packages do not have.
namespace torch::mps {
bool is_available();
void synchronize();
void commit();
id<MTLCommandBuffer> get_command_buffer();
dispatch_queue_t get_dispatch_queue();
}  // namespace torch::mps

namespace softmps::host_code {
namespace {

template <class Body>
void on_pytorchs_queue(Body&& body) {
  std::exception_ptr error;
  std::exception_ptr* carried = &error;
  auto* call = &body;
  dispatch_sync(torch::mps::get_dispatch_queue(), ^{
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

// Adds 1 to each float behind a pointer that only a table holds.
constexpr const char* kBindlessSource = R"(
struct Row { device float* values; };
kernel void add_one_bindless(constant Row& row, uint i [[thread_position_in_grid]]) {
  row.values[i] += 1;
}
)";

id<MTLComputePipelineState> make_bindless_pipeline() {
  @autoreleasepool {
    id<MTLDevice> device = MTLCreateSystemDefaultDevice();
    MTLCompileOptions* options = [[MTLCompileOptions new] autorelease];
    options.languageVersion = MTLLanguageVersion3_1;
    options.mathMode = MTLMathModeSafe;
    NSError* error = nil;
    NSString* source = [NSString stringWithUTF8String:kBindlessSource];
    id<MTLLibrary> library = [device newLibraryWithSource:source options:options error:&error];
    if (!library) throw std::runtime_error([[error localizedDescription] UTF8String]);
    id<MTLFunction> function = [library newFunctionWithName:@"add_one_bindless"];
    return [device newComputePipelineStateWithFunction:function error:&error];
  }
}

}  // namespace

bool is_available() {
  return torch::mps::is_available();
}
void synchronize() {
  torch::mps::synchronize();
}
void commit() {
  torch::mps::commit();
}
void commit_inside_the_queue() {
  on_pytorchs_queue(&torch::mps::commit);
}

void add_one_bindless(uintptr_t buffer_pointer, size_t count, bool declare, bool keep) {
  id<MTLBuffer> buffer = (id<MTLBuffer>)(void*)buffer_pointer;
  static id<MTLComputePipelineState> pipeline = make_bindless_pipeline();
  on_pytorchs_queue([&] {
    id<MTLCommandBuffer> commands = torch::mps::get_command_buffer();
    id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
    [encoder setComputePipelineState:pipeline];
    const uint64_t row = [buffer gpuAddress];
    [encoder setBytes:&row length:sizeof row atIndex:0];
    if (declare) {
      [encoder useResource:buffer usage:MTLResourceUsageRead | MTLResourceUsageWrite];
    }
    [encoder dispatchThreads:MTLSizeMake(count, 1, 1) threadsPerThreadgroup:MTLSizeMake(1, 1, 1)];
    [encoder endEncoding];
    if (keep) {
      // Its own variable: the block would capture the lambda's reference to `buffer`.
      id<MTLBuffer> kept = [buffer retain];
      [commands addCompletedHandler:^(id<MTLCommandBuffer>) {
        [kept release];
      }];
    }
  });
}

void leave_encoder_open() {
  on_pytorchs_queue([] { [torch::mps::get_command_buffer() computeCommandEncoder]; });
}

void commit_pytorchs_buffer() {
  on_pytorchs_queue([] { [torch::mps::get_command_buffer() commit]; });
}

void throw_carried() {
  on_pytorchs_queue([] { throw std::out_of_range("thrown inside the block"); });
}

void sync_inside_the_queue() {
  on_pytorchs_queue([] {
    dispatch_sync(torch::mps::get_dispatch_queue(), ^{
                  });
  });
}

}  // namespace softmps::host_code
