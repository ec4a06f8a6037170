// Two views of the same memory: an MPS tensor, and a CPU tensor over its buffer's contents.
#pragma once

#include <ATen/core/Tensor.h>

#include <unordered_map>
#include <vector>

#include "op_call.h"

namespace softmps {

// The pairs seen during one operator call. Storages shared on one side are shared on the other, and
// results that alias arguments map back to them. The caller waits for the stream first.
class Bridge {
 public:
  // `call`: is told of the new tensors that to_mps makes. nullptr: there are none.
  explicit Bridge(OpCall* call) : call_(call) {}

  at::Tensor to_host(const at::Tensor& tensor);  // a CPU view, no copy; other devices: unchanged
  at::Tensor to_mps(const at::Tensor& host);     // the argument behind it, or a new MPS tensor

  // Mirrors what a CPU kernel did to the geometry or storage of its arguments (out=, resize_,
  // set_).
  void mirror_changes();

 private:
  struct TensorPair {
    at::Tensor mps, host;
  };
  struct StoragePair {
    c10::Storage mps, host;
  };

  // Index of the pair that holds `key`, by identity of the tensor or storage behind it.
  using Index = std::unordered_map<const void*, size_t>;

  c10::Storage host_storage(const c10::Storage& mps);
  c10::Storage mps_storage(const c10::Storage& host);
  void remember(c10::Storage mps, c10::Storage host);
  void remember(at::Tensor mps, at::Tensor host);

  OpCall* call_;
  std::vector<TensorPair> tensors_;
  std::vector<StoragePair> storages_;
  Index tensor_by_mps_, tensor_by_host_, storage_by_mps_, storage_by_host_;
};

}  // namespace softmps
