#include "buffer_pool.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "metal.h"

namespace softmps::buffer_pool {
namespace {

bool recycling() {
  static const bool enabled = [] {
    const char* setting = std::getenv("MPS_DS_SOFT_RECYCLE");
    return setting && std::strcmp(setting, "0") != 0;
  }();
  return enabled;
}

using FreeBuffers = std::unordered_map<size_t, std::vector<void*>>;  // by exact length
std::mutex mutex;

FreeBuffers& free_buffers() {
  static auto* buffers = new FreeBuffers;  // leaked: tensors are freed at exit
  return *buffers;
}

}  // namespace

Taken take(size_t length) {
  if (recycling()) {
    std::lock_guard<std::mutex> lock(mutex);
    auto& of_length = free_buffers()[length];
    if (!of_length.empty()) {
      void* buffer = of_length.back();  // the latest: the likeliest to be in use still
      of_length.pop_back();
      return {buffer, true};
    }
  }
  return {metal::new_buffer(length), false};
}

void give_back(void* buffer) {
  if (!recycling()) {
    metal::release(buffer);
    return;
  }
  std::lock_guard<std::mutex> lock(mutex);
  free_buffers()[metal::length(buffer)].push_back(buffer);
}

void release_all() {
  FreeBuffers buffers;
  {
    std::lock_guard<std::mutex> lock(mutex);
    buffers.swap(free_buffers());
  }
  for (auto& [length, of_length] : buffers) {
    for (void* buffer : of_length) metal::release(buffer);
  }
}

}  // namespace softmps::buffer_pool
