// Where buffers come from and go to.
//
// By default a freed buffer is released at once: if pending work merely declared it, the device
// reports a use after free. With MPS_DS_SOFT_RECYCLE=1 it is kept and handed out again at once, as
// PyTorch's allocator does on a Mac: then a fresh tensor may get memory that pending work still
// writes to, and code that touches it from the host without waiting shows its fault.
#pragma once

#include <cstddef>

namespace softmps::buffer_pool {

struct Taken {
  void* buffer;  // id<MTLBuffer>, retained; nullptr: out of memory
  bool recycled;
};
Taken take(size_t length);
void give_back(void* buffer);
void release_all();

}  // namespace softmps::buffer_pool
