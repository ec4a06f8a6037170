// The device, for the Objective-C++ files.
#pragma once

#import <Metal/Metal.h>

namespace softmps::metal {

id<MTLDevice> device();

}  // namespace softmps::metal
