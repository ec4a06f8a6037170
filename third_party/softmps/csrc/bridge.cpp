#include "bridge.h"

#include <ATen/ops/_efficientzerotensor.h>

#include "blocks.h"
#include "dtypes.h"

namespace softmps {
namespace {

using at::Tensor;
using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::Storage;
using c10::TensorImpl;

// Lazy conjugation and negation are dispatch keys of a tensor, not of its memory.
void copy_lazy_bits(const Tensor& from, const Tensor& to) {
  if (from.is_conj()) to._set_conj(true);
  if (from.is_neg()) to._set_neg(true);
}

Tensor tensor_over(Storage storage, DispatchKey key, const Tensor& like) {
  auto impl =
      c10::make_intrusive<TensorImpl>(std::move(storage), DispatchKeySet(key), like.dtype());
  impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  Tensor tensor(std::move(impl));
  copy_lazy_bits(like, tensor);
  return tensor;
}

// A CPU kernel resized `host`: the MPS storage follows it into its new memory.
void follow(const Storage& mps, const Storage& host) {
  const Block* block = block_of(mps);
  const size_t length = host.nbytes();
  if (block ? block->contents == host.data() && block->length == length : length == 0) return;
  mps.unsafeGetStorageImpl()->set_data_ptr_noswap(mps_data_from_host(host));
  mps.unsafeGetStorageImpl()->set_nbytes(length);
}

bool same_geometry(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.storage_offset() == b.storage_offset();
}

}  // namespace

Tensor Bridge::to_host(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_mps()) return tensor;
  auto known = tensor_by_mps_.find(tensor.unsafeGetTensorImpl());
  if (known != tensor_by_mps_.end()) return tensors_[known->second].host;
  if (tensor._is_zerotensor()) {
    return at::_efficientzerotensor(tensor.sizes(), tensor.options().device(at::kCPU));
  }
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == at::kStrided,
                              "only strided tensors are supported on MPS");
  Tensor host = tensor_over(host_storage(tensor.storage()), DispatchKey::CPU, tensor);
  remember(tensor, host);
  return host;
}

Tensor Bridge::to_mps(const Tensor& host) {
  if (!host.defined() || !host.is_cpu()) return host;
  TORCH_CHECK_NOT_IMPLEMENTED(
      host.layout() == at::kStrided,
      "only strided tensors are supported on MPS (softmps: no sparse ones)");
  auto known = tensor_by_host_.find(host.unsafeGetTensorImpl());
  if (known != tensor_by_host_.end()) return tensors_[known->second].mps;
  require_mps_dtype(host.scalar_type());
  if (host._is_zerotensor()) {
    return at::_efficientzerotensor(host.sizes(), host.options().device(kMps0));
  }
  const bool new_memory = !storage_by_host_.count(host.storage().unsafeGetStorageImpl());
  Tensor mps = tensor_over(mps_storage(host.storage()), DispatchKey::MPS, host);
  if (call_ && new_memory) call_->writes(mps);
  return mps;
}

void Bridge::mirror_changes() {
  for (const StoragePair& pair : storages_) follow(pair.mps, pair.host);
  for (const TensorPair& pair : tensors_) {
    auto* impl = pair.mps.unsafeGetTensorImpl();
    if (!same_geometry(pair.mps, pair.host)) {
      impl->set_sizes_and_strides(pair.host.sizes(), pair.host.strides(),
                                  pair.host.storage_offset());
    }
    const Storage& storage = pair.host.storage();
    auto known = storage_by_host_.find(storage.unsafeGetStorageImpl());
    const bool moved =
        known == storage_by_host_.end() || storages_[known->second].mps.unsafeGetStorageImpl() !=
                                               pair.mps.storage().unsafeGetStorageImpl();
    if (moved) impl->set_storage_keep_dtype(mps_storage(storage));  // set_()
  }
}

Storage Bridge::host_storage(const Storage& mps) {
  auto known = storage_by_mps_.find(mps.unsafeGetStorageImpl());
  if (known != storage_by_mps_.end()) return storages_[known->second].host;
  const Block* block = block_of(mps);
  Storage host = block ? block->host : empty_host_storage();
  remember(mps, host);
  return host;
}

Storage Bridge::mps_storage(const Storage& host) {
  auto known = storage_by_host_.find(host.unsafeGetStorageImpl());
  if (known != storage_by_host_.end()) return storages_[known->second].mps;
  Storage mps(Storage::use_byte_size_t(), host.nbytes(), mps_data_from_host(host), mps_allocator(),
              /*resizable=*/true);
  remember(mps, host);
  return mps;
}

void Bridge::remember(Storage mps, Storage host) {
  storage_by_mps_[mps.unsafeGetStorageImpl()] = storages_.size();
  storage_by_host_[host.unsafeGetStorageImpl()] = storages_.size();
  storages_.push_back({std::move(mps), std::move(host)});
}

void Bridge::remember(Tensor mps, Tensor host) {
  tensor_by_mps_[mps.unsafeGetTensorImpl()] = tensors_.size();
  tensor_by_host_[host.unsafeGetTensorImpl()] = tensors_.size();
  tensors_.push_back({std::move(mps), std::move(host)});
}

}  // namespace softmps
