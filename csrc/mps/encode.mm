#include "mps/encode.h"

#include <exception>

#include "checks.h"
#include "mps/device.h"
#include "mps/failure.h"
#include "mps/torch_mps.h"

namespace mps_ds::mps {

namespace {

// The body, with `keep` held by the command buffer, and the end of its encoder.
void encode_into(id<MTLCommandBuffer> commands,
                 const std::function<void(id<MTLComputeCommandEncoder>)>& body,
                 const std::shared_ptr<void>& keep) {
  std::shared_ptr<void> held = keep;
  // Before the body: what it has encoded when it fails runs all the same.
  [commands addCompletedHandler:^(id<MTLCommandBuffer> done) {
    (void)held;  // released with the block, after the GPU is done
    if ([done status] == MTLCommandBufferStatusError) note_failure(describe([done error]));
  }];
  id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
  MPS_DS_CHECK(encoder, "Metal gave no compute encoder");
  try {
    @try {
      body(encoder);
    } @catch (NSException* exception) {
      throw std::runtime_error("mps_ds: " + describe(exception));
    }
  } catch (...) {
    [encoder endEncoding];  // an open encoder would break every later commit
    throw;
  }
  [encoder endEncoding];
}

// Objective-C's exceptions come out as C++ ones.
void encode_on_queue(const std::function<void(id<MTLComputeCommandEncoder>)>& body,
                     const std::shared_ptr<void>& keep) {
  @try {
    id<MTLCommandBuffer> commands = torch::mps::get_command_buffer();
    MPS_DS_CHECK(commands, "PyTorch gave no command buffer");
    encode_into(commands, body, keep);
  } @catch (NSException* exception) {
    throw std::runtime_error("mps_ds: " + describe(exception));
  }
}

}  // namespace

void encode(const std::function<void(id<MTLComputeCommandEncoder>)>& body,
            std::shared_ptr<void> keep) {
  raise_failure();
  // An exception must not cross libdispatch's C frames: carry it out. Blocks copy what they
  // capture, so they get pointers.
  std::exception_ptr failure;
  std::exception_ptr* out = &failure;
  const auto* run = &body;
  const auto* held = &keep;
  dispatch_sync(torch::mps::get_dispatch_queue(), ^{
    @autoreleasepool {
      try {
        encode_on_queue(*run, *held);
      } catch (...) {
        *out = std::current_exception();
      }
    }
  });
  if (failure) std::rethrow_exception(failure);
}

}  // namespace mps_ds::mps
