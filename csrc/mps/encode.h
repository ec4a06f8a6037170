// Encoding onto PyTorch's MPS stream.
#pragma once

#import <Metal/Metal.h>

#include <functional>
#include <memory>

namespace mps_ds::mps {

// Calls `body` with a compute encoder of PyTorch's current command buffer, on PyTorch's queue, and
// ends the encoder whatever happens. Nothing is committed and nothing waits: PyTorch commits when
// somebody reads. `keep` lives until the GPU is done with the command buffer.
//
// Inside `body`, no tensor may be made, copied or dropped, and nothing may commit or wait: PyTorch
// takes the same queue for those. Exceptions, Objective-C's too, come out as C++ exceptions; so
// does a failure of the GPU in what was encoded earlier (failure.h).
void encode(const std::function<void(id<MTLComputeCommandEncoder>)>& body,
            std::shared_ptr<void> keep);

}  // namespace mps_ds::mps
