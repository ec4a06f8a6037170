#include "mps/encode.h"

#include <exception>

#include "checks.h"
#include "mps/torch_mps.h"

namespace mps_ds::mps {

namespace {

// The body and the end of its encoder, with Objective-C's exceptions turned into C++ ones.
void encode_on_queue(const std::function<void(id<MTLComputeCommandEncoder>)>& body,
                     const std::shared_ptr<void>& keep) {
  id<MTLCommandBuffer> commands = torch::mps::get_command_buffer();
  MPS_DS_CHECK(commands, "PyTorch gave no command buffer");
  id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
  MPS_DS_CHECK(encoder, "Metal gave no compute encoder");
  try {
    @try {
      body(encoder);
      std::shared_ptr<void> held = keep;
      [commands addCompletedHandler:^(id<MTLCommandBuffer>) {
        (void)held;  // released with the block, after the GPU is done
      }];
    } @catch (NSException* exception) {
      throw std::runtime_error(text("mps_ds: ", [[exception reason] UTF8String]));
    }
  } catch (...) {
    [encoder endEncoding];  // an open encoder would break every later commit
    throw;
  }
  [encoder endEncoding];
}

}  // namespace

void encode(const std::function<void(id<MTLComputeCommandEncoder>)>& body,
            std::shared_ptr<void> keep) {
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
