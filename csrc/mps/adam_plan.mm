#include "mps/adam_plan.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "joint_layout.h"
#include "mps/encode.h"
#include "mps/library.h"

namespace mps_ds::mps {

static_assert(sizeof(AdamRow) == 32 && sizeof(AdamChunk) == 8 && sizeof(AdamStepRow) == 24 &&
                  sizeof(AdamDim) == 40 && sizeof(AdamHyper) == 76,
              "the layouts that adam.metal reads");

namespace {

bool is_aligned(uint64_t address) {
  return address % 16 == 0;
}

bool equal(const std::vector<int64_t>& a, torch::headeronly::IntHeaderOnlyArrayRef b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}

// Appends a table at the next multiple of 16, which suits every type in it; returns where.
template <class T>
size_t append(std::vector<char>& bytes, const std::vector<T>& table) {
  const size_t at = (bytes.size() + 15) / 16 * 16;
  bytes.resize(at + table.size() * sizeof(T));
  std::memcpy(bytes.data() + at, table.data(), table.size() * sizeof(T));
  return at;
}

std::vector<AdamChunk> chunks_of(const std::vector<AdamRow>& rows) {
  std::vector<AdamChunk> chunks;
  for (size_t row = 0; row < rows.size(); ++row)
    for (uint64_t index = 0; index * ADAM_CHUNK < rows[row].numel; ++index)
      chunks.push_back({static_cast<uint32_t>(row), static_cast<uint32_t>(index)});
  return chunks;
}

}  // namespace

struct AdamPlan::Tables {
  std::vector<AdamStepRow> rows;
  std::vector<AdamHyper> hypers;
  std::vector<AdamDim> dims;
  BufferSet grads{MTLResourceUsageRead};
  bool strided = false;
  bool empty = true;
};

AdamPlan::AdamPlan(Tensors params, Tensors exp_avgs, Tensors exp_avg_sqs,
                   std::vector<int64_t> groups)
    : params_(std::move(params)),
      exp_avgs_(std::move(exp_avgs)),
      exp_avg_sqs_(std::move(exp_avg_sqs)),
      groups_(std::move(groups)),
      buffers_(std::make_shared<BufferSet>(MTLResourceUsageRead | MTLResourceUsageWrite)) {
  const size_t count = params_.size();
  check_length("exp_avgs", exp_avgs_.size(), count, "params");
  check_length("exp_avg_sqs", exp_avg_sqs_.size(), count, "params");
  check_length("groups", groups_.size(), count, "params");
  buffers_->reserve(3 * count);
  for (size_t i = 0; i < count; ++i) {
    const std::array<const Tensor*, 3> tensors{&params_[i], &exp_avgs_[i], &exp_avg_sqs_[i]};
    const char* const lists[3] = {"params", "exp_avgs", "exp_avg_sqs"};
    Member member{{params_[i].sizes().begin(), params_[i].sizes().end()}, {}, {}, true, true};
    uint64_t address[3] = {};
    for (size_t k = 0; k < 3; ++k) {
      check_float32(*tensors[k], {lists[k], i}, DeviceType::MPS);
      check_same_shape(*tensors[k], {lists[k], i}, params_[i], {"params", i});
      member.strides[k].assign(tensors[k]->strides().begin(), tensors[k]->strides().end());
      member.data[k] = tensors[k]->data_ptr();
      if (tensors[k]->numel() == 0) continue;
      address[k] = buffers_->add(add_written(*tensors[k], {lists[k], i}));
      member.aligned = member.aligned && is_aligned(address[k]);
    }
    member.flat = is_flat(joint_dims<3>(tensors));
    members_.push_back(std::move(member));
    rows_.push_back(
        {address[0], address[1], address[2], static_cast<uint64_t>(params_[i].numel())});
  }
  check_disjoint(written_);
  const std::vector<AdamChunk> chunks = chunks_of(rows_);
  chunk_count_ = chunks.size();
  if (chunks.empty()) return;
  row_table_ = upload(rows_.data(), rows_.size() * sizeof(AdamRow));
  chunk_table_ = upload(chunks.data(), chunks.size() * sizeof(AdamChunk));
}

Place AdamPlan::add_written(const Tensor& tensor, ArgumentName name) {
  const Place place = place_of(tensor);
  written_.push_back(extent_of(tensor, name, Access::kWrite, (__bridge const void*)place.buffer,
                               place.byte_offset));
  return place;
}

bool AdamPlan::moved(size_t i) const {
  const Member& member = members_[i];
  const Tensor* tensors[3] = {&params_[i], &exp_avgs_[i], &exp_avg_sqs_[i]};
  for (size_t k = 0; k < 3; ++k)
    if (tensors[k]->data_ptr() != member.data[k] || !equal(member.sizes, tensors[k]->sizes()) ||
        !equal(member.strides[k], tensors[k]->strides()))
      return true;
  return false;
}

int64_t AdamPlan::first_moved() const {
  for (size_t i = 0; i < members_.size(); ++i)
    if (moved(i)) return static_cast<int64_t>(i);
  return -1;
}

// How the kernel walks the four tensors of a row.
void AdamPlan::set_layout(AdamStepRow& row, Tables& tables, size_t i, const Tensor& grad) const {
  const Member& member = members_[i];
  std::vector<JointDim<4>> dims;
  bool flat = member.flat && equal(member.strides[0], grad.strides());
  if (!flat) {
    dims = joint_dims<4>({&params_[i], &grad, &exp_avgs_[i], &exp_avg_sqs_[i]});
    flat = is_flat(dims);
  }
  if (flat) {
    row.flags = member.aligned && is_aligned(row.grad) ? ADAM_WIDE : 0;
    return;
  }
  row.flags = ADAM_STRIDED;
  row.dim_begin = static_cast<uint32_t>(tables.dims.size());
  row.dim_count = static_cast<uint32_t>(dims.size());
  for (const JointDim<4>& dim : dims)
    tables.dims.push_back({static_cast<uint64_t>(dim.size), dim.strides[0], dim.strides[1],
                           dim.strides[2], dim.strides[3]});
  tables.strided = true;
}

AdamPlan::Tables AdamPlan::make_tables(const AdamStep& step) const {
  Tables tables;
  tables.rows.assign(size(), {0, 0, ADAM_SKIP, 0, 0});
  tables.grads.reserve(step.grads.size());
  AdamHypers hypers(step.groups);
  std::vector<bool> seen(size());
  bool shares_buffer = false;
  for (size_t k = 0; k < step.grads.size(); ++k) {
    const Tensor& grad = step.grads[k];
    const size_t i = static_cast<size_t>(step.rows[k]);
    MPS_DS_CHECK(i < size() && !seen[i], "rows[", k, "] is ", step.rows[k],
                 "; each must be another param of the ", size(), " in the plan");
    seen[i] = true;
    check_float32(grad, {"grads", k}, DeviceType::MPS);
    check_same_shape(grad, {"grads", k}, params_[i], {"params", i});
    AdamStepRow& row = tables.rows[i];
    row.hyper = hypers.index(groups_[i], step.steps[k]);
    if (grad.numel() == 0) continue;
    const Place place = place_of(grad);
    const bool shared = buffers_->contains(place.buffer);
    shares_buffer |= shared;
    row.grad = shared ? buffers_->address(place) : tables.grads.add(place);
    set_layout(row, tables, i, grad);
    tables.empty = false;
  }
  if (shares_buffer) check_grads_apart(step);
  tables.hypers = hypers.table();
  return tables;
}

void AdamPlan::check_grads_apart(const AdamStep& step) const {
  std::vector<Extent> extents = written_;
  for (size_t k = 0; k < step.grads.size(); ++k) {
    if (step.grads[k].numel() == 0) continue;
    const Place place = place_of(step.grads[k]);
    extents.push_back(extent_of(step.grads[k], {"grads", k}, Access::kRead,
                                (__bridge const void*)place.buffer, place.byte_offset));
  }
  check_disjoint(std::move(extents));
}

void AdamPlan::step(const AdamStep& step) {
  Tables tables = make_tables(step);
  if (tables.empty) return;
  if (tables.dims.empty()) tables.dims.push_back({});  // every slot that a kernel names is bound

  // One upload for what changes. Never into the buffer of an earlier step, which may not have run.
  std::vector<char> bytes;
  append(bytes, tables.rows);
  const size_t hypers_at = append(bytes, tables.hypers);
  const size_t dims_at = append(bytes, tables.dims);

  struct Held {
    std::shared_ptr<BufferSet> plan;
    BufferSet grads;
    Owned<id<MTLBuffer>> row_table, chunk_table, step_table;
  };
  const auto held = std::make_shared<Held>(Held{buffers_, std::move(tables.grads), row_table_,
                                                chunk_table_, upload(bytes.data(), bytes.size())});

  id<MTLComputePipelineState> pipeline =
      adam_library().pipeline(tables.strided ? "adam_strided_float32" : "adam_float32");
  const NSUInteger threads =
      std::min<NSUInteger>(ADAM_THREADS, [pipeline maxTotalThreadsPerThreadgroup]);
  encode(
      [&](id<MTLComputeCommandEncoder> encoder) {
        [encoder setComputePipelineState:pipeline];
        [encoder setBuffer:held->row_table.get() offset:0 atIndex:0];
        [encoder setBuffer:held->chunk_table.get() offset:0 atIndex:1];
        [encoder setBuffer:held->step_table.get() offset:0 atIndex:2];
        [encoder setBuffer:held->step_table.get() offset:hypers_at atIndex:3];
        [encoder setBuffer:held->step_table.get() offset:dims_at atIndex:4];
        held->plan->declare(encoder);
        held->grads.declare(encoder);
        [encoder dispatchThreadgroups:MTLSizeMake(chunk_count_, 1, 1)
                threadsPerThreadgroup:MTLSizeMake(threads, 1, 1)];
      },
      held);
}

}  // namespace mps_ds::mps
