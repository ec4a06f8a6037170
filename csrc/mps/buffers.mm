#include "mps/buffers.h"

#include "mps/device.h"

namespace mps_ds::mps {

// An MPS data pointer is not an address: it is the id<MTLBuffer> plus the byte offset. A tensor
// without elements has a null one, whatever its storage_offset says.
Place place_of(const Tensor& tensor) {
  if (tensor.numel() == 0) return {nil, 0};
  const int64_t offset = tensor.storage_offset() * static_cast<int64_t>(tensor.element_size());
  char* pointer = static_cast<char*>(tensor.data_ptr());
  return {(__bridge id<MTLBuffer>)static_cast<void*>(pointer - offset), offset};
}

Owned<id<MTLBuffer>> upload(const void* bytes, size_t length) {
  auto buffer =
      Owned<id<MTLBuffer>>::adopt([device() newBufferWithBytes:bytes
                                                        length:length
                                                       options:MTLResourceStorageModeShared]);
  MPS_DS_CHECK(buffer, "Metal has no memory for a table of ", length, " bytes");
  return buffer;
}

BufferSet::~BufferSet() {
#if !__has_feature(objc_arc)
  for (id<MTLBuffer> buffer : buffers_) [buffer release];
#endif
}

void BufferSet::reserve(size_t count) {
  buffers_.reserve(count);
  size_t size = slots_.size();
  while (size < 2 * count) size *= 2;
  if (size != slots_.size()) rehash(size);
}

uint64_t BufferSet::add(const Place& place) {
  Slot& found = slot(place.buffer);
  if (found.buffer) return found.address + static_cast<uint64_t>(place.byte_offset);
  const uint64_t address = [place.buffer gpuAddress];
  found = {(__bridge const void*)place.buffer, address};
#if !__has_feature(objc_arc)
  [place.buffer retain];
#endif
  buffers_.push_back(place.buffer);
  if (2 * buffers_.size() > slots_.size()) rehash(2 * slots_.size());
  return address + static_cast<uint64_t>(place.byte_offset);
}

uint64_t BufferSet::address(const Place& place) const {
  return slot(place.buffer).address + static_cast<uint64_t>(place.byte_offset);
}

void BufferSet::declare(id<MTLComputeCommandEncoder> encoder) const {
  if (buffers_.empty()) return;
  [encoder useResources:(const id<MTLResource>*)buffers_.data() count:buffers_.size() usage:usage_];
}

const BufferSet::Slot& BufferSet::slot(id<MTLBuffer> buffer) const {
  const void* wanted = (__bridge const void*)buffer;
  const size_t mask = slots_.size() - 1;
  // Objects are 16-byte aligned; the multiplier (2^64 over the golden ratio) spreads what is left.
  size_t at = (reinterpret_cast<uintptr_t>(wanted) >> 4) * 0x9e3779b97f4a7c15ull >> 32 & mask;
  while (slots_[at].buffer && slots_[at].buffer != wanted) at = (at + 1) & mask;
  return slots_[at];
}

void BufferSet::rehash(size_t size) {
  std::vector<Slot> old(size);
  old.swap(slots_);
  for (const Slot& entry : old)
    if (entry.buffer) slot((__bridge id<MTLBuffer>)const_cast<void*>(entry.buffer)) = entry;
}

}  // namespace mps_ds::mps
