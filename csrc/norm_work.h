// What a norm is to be taken of, and how the work is cut: the same for every device, because the
// cut is the order in which numbers are added.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "checks.h"
#include "mps/kernels/norm_tables.h"

namespace mps_ds {

struct NormRequest {
  const char* list;  // the argument's name, for messages
  const Tensors& tensors;
  double norm_type = 2.0;
  // Each entry is a norm of its own: that of the tensors with its number in `entry_of`, -1 for
  // none. The total is that of all that belong to an entry. Whatever belongs to none still counts
  // for found_inf.
  std::vector<int64_t> entry_of = {};
  int64_t entries = 0;
  double max_norm = INFINITY;          // of the clip coefficient
  std::optional<Tensor> divisor = {};  // of the elements; one number on the device
  bool wants_entries = false;
  bool wants_total = false;
  bool wants_found_inf = false;
  bool wants_clip_coef = false;
};

// What was wanted, float32 on the device of the tensors: `entries` 1-d, the others 0-dim.
struct NormResults {
  std::optional<Tensor> entries, total, found_inf, clip_coef;
};

// Dense tensors of a floating type on `device`; numbers in their range.
void check_norm(const NormRequest& request, DeviceType device);

// A new tensor on the device of `like`, not yet written. Raises where there is no memory for it:
// PyTorch's own message does not come through its stable ABI (before 2.13).
Tensor allocate(const Tensor& like, const std::vector<int64_t>& size, ScalarType type);

// New tensors beside the first of the request's, not yet written.
NormResults new_norm_results(const NormRequest& request);

uint32_t norm_kind(const NormRequest& request);

struct NormWork {
  NormJob job;
  std::vector<RowChunk> chunks;  // one partial each; `row` is the tensor's place in the list
  std::vector<NormSegment> segments;
};

NormWork norm_work(const NormRequest& request);

}  // namespace mps_ds
