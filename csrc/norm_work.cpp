#include "norm_work.h"

#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace mps_ds {

namespace {

// Elements of a chunk: chunks enough to keep a GPU busy, few enough for one threadgroup to finish.
constexpr int64_t kLeastSpan = 8192;
constexpr int64_t kMostSpan = 262144;
constexpr int64_t kManyChunks = 4096;
static_assert(kLeastSpan % (8 * NORM_THREADS) == 0, "a chunk holds whole blocks of every thread");

uint32_t span_of(const Tensors& tensors) {
  int64_t numel = 0;
  for (const Tensor& tensor : tensors) numel += tensor.numel();
  int64_t span = kLeastSpan;
  while (span < kMostSpan && numel > span * kManyChunks) span *= 2;
  return static_cast<uint32_t>(span);
}

// Places of the tensors, entry after entry; what belongs to none is last.
std::vector<uint32_t> in_order_of_entries(const std::vector<int64_t>& entry_of) {
  std::vector<uint32_t> order(entry_of.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto key = [&](uint32_t i) {
    return std::pair(static_cast<uint64_t>(entry_of[i]), i);  // that of -1 is the largest
  };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  return order;
}

}  // namespace

void check_norm(const NormRequest& request, DeviceType device) {
  MPS_DS_CHECK(request.norm_type == 2.0 || request.norm_type == INFINITY, "norm_type is ",
               request.norm_type, "; accepted are 2 and inf");
  const Tensors& tensors = request.tensors;
  for (size_t i = 0; i < tensors.size(); ++i) check_floating(tensors[i], {request.list, i}, device);
  if (request.divisor) check_number(*request.divisor, "grad_scale", device);
  MPS_DS_CHECK(!std::isnan(request.max_norm), "max_norm is nan");
}

Tensor allocate(const Tensor& like, const std::vector<int64_t>& size, ScalarType type) {
  try {
    return torch::stable::new_empty(like, size, type);
  } catch (const std::exception&) {
    int64_t numel = 1;
    for (const int64_t length : size) numel *= length;
    const std::string device = device_name(like.device().type());
    throw std::runtime_error(text("mps_ds: ", device,
                                  " is out of memory: PyTorch could not allocate ", numel, " ",
                                  type_name(type), " elements there"));
  }
}

NormResults new_norm_results(const NormRequest& request) {
  const auto empty = [&](bool wanted, std::vector<int64_t> size) -> std::optional<Tensor> {
    if (!wanted) return std::nullopt;
    return allocate(request.tensors[0], size, ScalarType::Float);
  };
  return {empty(request.wants_entries, {request.entries}), empty(request.wants_total, {}),
          empty(request.wants_found_inf, {}), empty(request.wants_clip_coef, {})};
}

uint32_t norm_kind(const NormRequest& request) {
  return request.norm_type == 2.0 ? NORM_L2 : NORM_INF;
}

NormWork norm_work(const NormRequest& request) {
  NormWork work;
  work.job = {span_of(request.tensors), static_cast<float>(request.max_norm),
              std::isinf(request.max_norm) ? 0u : 1u};
  for (int64_t entry = 0; request.wants_entries && entry < request.entries; ++entry)
    work.segments.push_back({0, 0, static_cast<uint32_t>(entry), NORM_WRITES_ENTRY});

  uint32_t count = 0;     // of chunks
  uint32_t in_total = 0;  // of those, up to the last that belongs to an entry
  for (uint32_t i : in_order_of_entries(request.entry_of)) {
    const int64_t entry = request.entry_of[i];
    const uint32_t begin = count;
    const uint64_t numel = static_cast<uint64_t>(request.tensors[i].numel());
    for (uint32_t index = 0; uint64_t{index} * work.job.span < numel; ++index, ++count)
      work.chunks.push_back({i, index});
    if (entry < 0) continue;
    in_total = count;
    if (!request.wants_entries || entry >= request.entries) continue;
    NormSegment& segment = work.segments[static_cast<size_t>(entry)];
    if (segment.begin == segment.end) segment.begin = begin;
    segment.end = count;
  }

  NormSegment total{0, in_total, 0, 0};
  if (request.wants_total) total.writes |= NORM_WRITES_TOTAL;
  if (request.wants_clip_coef) total.writes |= NORM_WRITES_COEF;
  NormSegment found{0, count, 0, request.wants_found_inf ? NORM_WRITES_FOUND : 0u};
  if (total.end == found.end) total.writes |= std::exchange(found.writes, 0u);
  if (total.writes) work.segments.push_back(total);
  if (found.writes) work.segments.push_back(found);
  return work;
}

}  // namespace mps_ds
