// The Metal device, and facts about it for people.
#pragma once

#import <Metal/Metal.h>

#include <string>

namespace mps_ds::mps {

// The system's device, made once. Raises where there is none.
id<MTLDevice> device();

// What it says.
std::string describe(NSError* error);
std::string describe(NSException* exception);

}  // namespace mps_ds::mps
