// resize_ and set_: tensors that get another storage, or a larger one.
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>

#include <algorithm>
#include <cstring>

#include "blocks.h"
#include "kernels.h"
#include "metal.h"

namespace softmps {
namespace {

using at::IntArrayRef;
using at::Tensor;

// As on a Mac, a storage grows by moving to a new buffer: data_ptr() changes.
void grow(const c10::Storage& storage, size_t needed) {
  if (needed <= storage.nbytes()) return;
  TORCH_CHECK(storage.unsafeGetStorageImpl(), "Tensor: invalid null storage");
  TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
  auto* impl = storage.unsafeGetStorageImpl();
  c10::DataPtr data = mps_allocator()->allocate(needed);
  if (const Block* old = block_of(storage)) {
    metal::wait(metal::Reason::kFallback);
    std::memcpy(metal::own_contents(data.get()), old->contents, std::min(needed, storage.nbytes()));
  }
  impl->set_data_ptr_noswap(std::move(data));
  impl->set_nbytes(needed);
}

}  // namespace

const Tensor& resize_(const Tensor& self, IntArrayRef size,
                      std::optional<at::MemoryFormat> memory_format) {
  auto* impl = self.unsafeGetTensorImpl();
  if (self.sizes() != size) {
    impl->set_sizes_contiguous(size);
    grow(self.storage(),
         at::detail::computeStorageNbytesContiguous(size, self.itemsize(), self.storage_offset()));
  }
  if (memory_format) {
    TORCH_CHECK(*memory_format != at::MemoryFormat::Preserve, "Unsupported memory format",
                *memory_format);
    impl->empty_tensor_restride(*memory_format);
  }
  return self;
}

Tensor& set_storage_offset(Tensor& self, c10::Storage source, int64_t storage_offset,
                           IntArrayRef size, IntArrayRef stride) {
  at::native::checkSetStorage(self, std::move(source), storage_offset, size, stride);
  auto* impl = self.unsafeGetTensorImpl();
  if (stride.empty() && !size.empty()) {
    impl->set_sizes_contiguous(size);
    impl->set_storage_offset(storage_offset);
  } else {
    impl->set_sizes_and_strides(size, stride, storage_offset);
  }
  grow(self.storage(), at::detail::computeStorageNbytes(self.sizes(), self.strides(),
                                                        self.itemsize(), storage_offset));
  return self;
}

Tensor& set_storage(Tensor& self, c10::Storage source) {
  const auto numel = static_cast<int64_t>(source.nbytes() / self.itemsize());
  return set_storage_offset(self, std::move(source), 0, {numel}, {1});
}

Tensor& set_tensor(Tensor& self, const Tensor& source) {
  if (self.is_same(source)) return self;
  return set_storage_offset(self, source.storage(), source.storage_offset(), source.sizes(),
                            source.strides());
}

Tensor& set_empty(Tensor& self) {
  c10::Storage empty(c10::Storage::use_byte_size_t(), 0, mps_allocator(), /*resizable=*/true);
  return set_storage_offset(self, std::move(empty), 0, {0}, {1});
}

}  // namespace softmps
