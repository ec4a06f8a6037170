// How work on elements is divided among PyTorch's threads.
#pragma once

#include <cstdint>

namespace mps_ds {

constexpr int64_t kGrain = 16384;  // elements below which a second thread costs more than it brings

}  // namespace mps_ds
