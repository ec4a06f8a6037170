#include "blocks.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "buffer_pool.h"
#include "memory_stats.h"
#include "metal.h"

namespace softmps {
namespace {

// Host memory that is the contents of a Metal buffer.
//
// PyTorch's raw_allocate() (used by oneDNN convolutions) asserts that a CPU DataPtr's context is
// its data pointer, so the buffer is found by address instead.
class HostBuffers {
 public:
  void add(void* contents, void* buffer) {
    std::lock_guard<std::mutex> lock(mutex_);
    buffers_[contents] = buffer;
  }
  void* find(void* contents) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = buffers_.find(contents);
    return found == buffers_.end() ? nullptr : found->second;
  }
  void* take(void* contents) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = buffers_.find(contents);
    if (found == buffers_.end()) return nullptr;
    void* buffer = found->second;
    buffers_.erase(found);
    return buffer;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, void*> buffers_;  // contents -> id<MTLBuffer>
};

HostBuffers& host_buffers() {
  static auto* buffers = new HostBuffers;  // leaked: deleters run at exit
  return *buffers;
}

c10::Allocator* pytorch_cpu_allocator = nullptr;
thread_local bool host_allocations_are_metal = false;

void delete_host(void* contents) {
  if (void* buffer = host_buffers().take(contents)) {
    buffer_pool::give_back(buffer);
  } else {
    pytorch_cpu_allocator->raw_deleter()(contents);  // raw_deallocate() of PyTorch's own memory
  }
}

// What a fresh allocation holds: NaN in every float type, -1 in every signed integer. A program
// that reads memory it never wrote should not find the zeros of fresh pages.
constexpr int kPoison = 0xFF;
constexpr size_t kMaxPoisoned = size_t{16} << 20;  // keep huge, sparsely used tensors cheap

void poison(void* memory, size_t length) {
  static const bool enabled = [] {
    const char* setting = std::getenv("MPS_DS_SOFT_POISON");
    return !setting || std::strcmp(setting, "0") != 0;
  }();
  if (enabled) std::memset(memory, kPoison, std::min(length, kMaxPoisoned));
}

c10::DataPtr new_host_memory(size_t length, bool poisoned) {
  check_allocation(length);
  const auto [buffer, recycled] = buffer_pool::take(length);
  TORCH_CHECK(buffer, "MPS backend out of memory: Metal gave no buffer of ", length, " bytes");
  void* contents = metal::own_contents(buffer);
  host_buffers().add(contents, buffer);
  if (poisoned && !recycled) poison(contents, length);  // pending work may use a recycled buffer
  return {contents, contents, &delete_host, c10::Device(c10::DeviceType::CPU)};
}

struct HostAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t length) override {
    if (host_allocations_are_metal && length > 0) {
      return new_host_memory(length, /*poisoned=*/false);
    }
    return pytorch_cpu_allocator->allocate(length);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &delete_host; }
  void copy_data(void* to, const void* from, size_t length) const override {
    std::memcpy(to, from, length);
  }
};
HostAllocator host_allocator;

// Blocks by buffer, for storages that PyTorch makes from a bare data pointer (from_blob).
class BlockTable {
 public:
  void add(Block* block) {
    std::lock_guard<std::mutex> lock(mutex_);
    blocks_[block->buffer] = block;
  }
  void remove(Block* block) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = blocks_.find(block->buffer);
    // A resized storage may have replaced it.
    if (found != blocks_.end() && found->second == block) blocks_.erase(found);
  }
  Block* find(const void* buffer) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = blocks_.find(buffer);
    return found == blocks_.end() ? nullptr : found->second;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, Block*> blocks_;
};

BlockTable& block_table() {
  static auto* table = new BlockTable;  // leaked: tensors are freed at exit
  return *table;
}

void delete_block(void* context) {
  auto* block = static_cast<Block*>(context);
  block_table().remove(block);
  count_allocation(-static_cast<int64_t>(block->length));
  metal::release(block->buffer);
  delete block;
}

struct MpsAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t length) override {
    if (length == 0) return mps_data_from_host(empty_host_storage());
    c10::Storage host(c10::Storage::use_byte_size_t(), length,
                      new_host_memory(length, /*poisoned=*/true), &host_allocator,
                      /*resizable=*/true);
    return mps_data_from_host(std::move(host));
  }
  // No raw_deleter: the context is a Block, not the data pointer.
  void copy_data(void* to, const void* from, size_t length) const override {
    metal::wait(metal::Reason::kFallback);
    std::memcpy(metal::own_contents(to), metal::own_contents(const_cast<void*>(from)), length);
  }
};
MpsAllocator allocator;

}  // namespace

Block* block_of(const c10::Storage& storage) {
  if (!storage.data()) return nullptr;
  if (storage.data_ptr().get_deleter() == &delete_block) {
    return static_cast<Block*>(storage.data_ptr().get_context());
  }
  Block* block = block_table().find(storage.data());
  TORCH_CHECK(block, "softmps: the data pointer of this MPS storage is no buffer of the allocator");
  return block;
}

c10::Allocator* mps_allocator() {
  return &allocator;
}

void install_host_allocator() {
  pytorch_cpu_allocator = c10::GetCPUAllocator();
  c10::SetCPUAllocator(&host_allocator, /*priority=*/1);
}

HostAllocationsAreMetal::HostAllocationsAreMetal()
    : before_(std::exchange(host_allocations_are_metal, true)) {}
HostAllocationsAreMetal::~HostAllocationsAreMetal() {
  host_allocations_are_metal = before_;
}

c10::Storage empty_host_storage() {
  return {c10::Storage::use_byte_size_t(), 0, &host_allocator, /*resizable=*/true};
}

c10::DataPtr mps_data_from_host(c10::Storage host) {
  const size_t length = host.nbytes();
  // As PyTorch's allocator: an empty allocation has a null pointer.
  if (length == 0) return {nullptr, nullptr, &c10::detail::deleteNothing, kMps0};
  const c10::DataPtr& data = host.data_ptr();
  void* buffer =
      data.get_deleter() == &delete_host ? host_buffers().find(data.get_context()) : nullptr;
  if (!buffer || metal::length(buffer) < length) {
    c10::Storage copy(c10::Storage::use_byte_size_t(), length,
                      new_host_memory(length, /*poisoned=*/false), &host_allocator,
                      /*resizable=*/true);
    std::memcpy(copy.mutable_data(), host.data(), length);
    host = std::move(copy);
    buffer = host_buffers().find(host.mutable_data());
  }
  metal::retain(buffer);
  void* contents = host.mutable_data();
  count_allocation(static_cast<int64_t>(length));
  auto* block = new Block{buffer, contents, length, std::move(host)};
  block_table().add(block);
  return {buffer, block, &delete_block, kMps0};
}

}  // namespace softmps
