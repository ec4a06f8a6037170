// Bytes in use, their high-water mark, and the limit above which an allocation is refused.
#pragma once

#include <cstddef>
#include <cstdint>

namespace softmps {

// Throws PyTorch's errors if `length` more bytes are not allowed.
void check_allocation(size_t length);
void count_allocation(int64_t bytes);  // negative: freed

}  // namespace softmps
