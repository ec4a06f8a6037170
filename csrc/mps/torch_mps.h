// The functions of PyTorch's MPS backend that this code calls. They are public (<torch/mps.h>) but
// outside the stable ABI, whose headers refuse that file; so they are declared here, weakly: a
// libtorch_cpu without them must give an error that a user can read, not a loader's.
#pragma once

#import <Metal/Metal.h>
#include <dispatch/dispatch.h>

namespace torch::mps {
__attribute__((weak)) id<MTLCommandBuffer> get_command_buffer();
__attribute__((weak)) dispatch_queue_t get_dispatch_queue();
}  // namespace torch::mps
