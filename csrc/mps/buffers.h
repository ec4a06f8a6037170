// MTLBuffers behind tensors, and the sets of them that a bindless dispatch declares.
#pragma once

#import <Metal/Metal.h>

#include <cstdint>
#include <vector>

#include "checks.h"
#include "mps/ownership.h"

namespace mps_ds::mps {

// Where element 0 of a tensor is. Tensors without elements have no buffer.
struct Place {
  id<MTLBuffer> buffer;
  int64_t byte_offset;
};
Place place_of(const Tensor& tensor);

// A Shared buffer that holds a copy of `bytes`.
Owned<id<MTLBuffer>> upload(const void* bytes, size_t length);

// The distinct buffers that a dispatch reaches by address alone. Declaring them makes them resident
// and tracks hazards, but does not keep them alive: this set does, so it must live until the GPU is
// done (encode's `keep`).
class BufferSet {
 public:
  explicit BufferSet(MTLResourceUsage usage) : usage_(usage) {}
  ~BufferSet();
  BufferSet(BufferSet&&) noexcept = default;
  BufferSet(const BufferSet&) = delete;
  BufferSet& operator=(const BufferSet&) = delete;

  void reserve(size_t count);
  // The address of element 0 of a tensor at `place`.
  uint64_t add(const Place& place);
  bool contains(id<MTLBuffer> buffer) const { return slot(buffer).buffer != nullptr; }
  // The address that add() gave, of a buffer that is here.
  uint64_t address(const Place& place) const;
  void declare(id<MTLComputeCommandEncoder> encoder) const;

 private:
  struct Slot {
    const void* buffer = nullptr;
    uint64_t address = 0;
  };
  const Slot& slot(id<MTLBuffer> buffer) const;
  Slot& slot(id<MTLBuffer> buffer) {
    return const_cast<Slot&>(static_cast<const BufferSet*>(this)->slot(buffer));
  }
  void rehash(size_t size);

  MTLResourceUsage usage_;
  // Open addressing: with a node per buffer, this would cost more than the rest of a step.
  std::vector<Slot> slots_ = std::vector<Slot>(16);
  std::vector<id<MTLBuffer>> buffers_;  // one reference each
};

}  // namespace mps_ds::mps
