// Command buffers that failed on the GPU: a page fault, memory that ran out, a timeout. PyTorch
// waits for its command buffers and does not ask how they ended (pytorch#193571).
#pragma once

#include <string>

namespace mps_ds::mps {

// Remembers the first failure since the last that was raised. Any thread may call it.
void note_failure(const std::string& reason);

// Raises what was remembered, once.
void raise_failure();

}  // namespace mps_ds::mps
