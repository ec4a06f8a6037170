// The Metal device, and facts about it for people.
#pragma once

#import <Metal/Metal.h>

#include <string>

namespace mps_ds::mps {

// The system's device, made once. Raises where there is none.
id<MTLDevice> device();

// An NSError's text.
std::string describe(NSError* error);

}  // namespace mps_ds::mps
