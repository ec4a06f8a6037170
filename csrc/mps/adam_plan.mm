#include "mps/adam_plan.h"

#include <algorithm>

#include "joint_layout.h"
#include "mps/device.h"
#include "mps/kernels/adam_scalars.h"
#include "mps/storage.h"

namespace mps_ds::mps {

static_assert(sizeof(AdamRow) == 56 && sizeof(AdamChunk) == 8, "the layouts that adam.metal reads");

namespace {

Owned<id<MTLBuffer>> private_table(size_t length) {
  auto buffer =
      Owned<id<MTLBuffer>>::adopt([device() newBufferWithLength:length
                                                        options:MTLResourceStorageModePrivate]);
  MPS_DS_CHECK(buffer, "Metal has no memory for a table of ", length, " bytes");
  return buffer;
}

}  // namespace

AdamPlan::AdamPlan(AdamLists lists, std::vector<int64_t> groups)
    : lists_(std::move(lists)),
      groups_(std::move(groups)),
      buffers_(std::make_shared<BufferSet>(MTLResourceUsageRead | MTLResourceUsageWrite)) {
  check_adam_lists(lists_, DeviceType::MPS);
  const size_t count = lists_.size();
  check_length("groups", groups_.size(), count, "params");
  for (size_t i = 0; i < count; ++i) {
    MPS_DS_CHECK(groups_[i] >= 0, "groups[", i, "] is ", groups_[i], "; they count from 0");
    group_count_ = std::max(group_count_, static_cast<size_t>(groups_[i]) + 1);
  }
  buffers_->reserve(3 * count);
  for (size_t i = 0; i < count; ++i) add_row(i);
  check_disjoint(written_);
  make_chunks();
  if (!row_table_ || lists_.step_tensors.empty()) return;
  for (auto& table : progress_tables_) table = private_table(count * sizeof(AdamProgress));
}

void AdamPlan::add_row(size_t i) {
  Member member{};
  member.flat = member.aligned = true;
  uint64_t address[kAdamOperands] = {};
  const auto operands = adam_operands(lists_, i);
  std::array<const Tensor*, kAdamOperands> tensors;
  member.sizes.assign(lists_.params[i].sizes().begin(), lists_.params[i].sizes().end());
  for (size_t k = 0; k < kAdamOperands; ++k) {
    const Tensor* tensor = operands[k].tensor;
    tensors[k] = tensor ? tensor : &lists_.params[i];  // as if it were there: it adds no layout
    if (!tensor) continue;
    member.strides[k].assign(tensor->strides().begin(), tensor->strides().end());
    member.data[k] = tensor->data_ptr();
    member.offsets[k] = tensor->storage_offset();
    member.types[k] = tensor->scalar_type();
    if (tensor->numel() == 0) continue;
    address[k] = add_written(*tensor, {operands[k].list, i});
    member.aligned = member.aligned && address[k] % 16 == 0;
  }
  member.flat = is_flat(joint_dims<kAdamOperands>(tensors));
  member.batch = batch_of(i);
  uint64_t step = 0;
  if (!lists_.step_tensors.empty()) {
    member.step = lists_.step_tensors[i].data_ptr();
    step = add_written(lists_.step_tensors[i], {"step_tensors", i});
  }
  members_.push_back(std::move(member));
  rows_.push_back({address[0], address[1], address[2], address[3], address[4], step,
                   static_cast<uint64_t>(lists_.params[i].numel())});
}

uint64_t AdamPlan::add_written(const Tensor& tensor, ArgumentName name) {
  const Place place = place_of(tensor);
  written_.push_back(extent_of(tensor, name, Access::kWrite, (__bridge const void*)place.buffer,
                               place.byte_offset));
  return buffers_->add(place);
}

size_t AdamPlan::batch_of(size_t i) {
  const AdamTypes types{storage_type(lists_.params[i]), storage_type(lists_.exp_avgs[i]),
                        lists_.copies.empty() ? STORAGE_NONE : storage_type(lists_.copies[i]),
                        adam_operands(lists_, i)[3].tensor != nullptr};
  const auto found = std::find_if(batches_.begin(), batches_.end(),
                                  [&](const AdamBatch& batch) { return batch.types == types; });
  if (found != batches_.end()) return static_cast<size_t>(found - batches_.begin());
  batches_.push_back({types});
  return batches_.size() - 1;
}

void AdamPlan::make_chunks() {
  std::vector<AdamChunk> chunks;
  // A param without elements has a step count all the same.
  const bool for_all = !lists_.step_tensors.empty();
  for (size_t batch = 0; batch < batches_.size(); ++batch) {
    batches_[batch].first_chunk = chunks.size();
    for (size_t row = 0; row < rows_.size(); ++row) {
      if (members_[row].batch != batch) continue;
      uint64_t count = (rows_[row].numel + ADAM_CHUNK - 1) / ADAM_CHUNK;
      if (for_all) count = std::max<uint64_t>(count, 1);
      MPS_DS_CHECK(count <= UINT32_MAX, ArgumentName{"params", row}, " has ", rows_[row].numel,
                   " elements, more than a table of chunks can count");
      for (uint64_t index = 0; index < count; ++index)
        chunks.push_back({static_cast<uint32_t>(row), static_cast<uint32_t>(index)});
    }
    batches_[batch].chunk_count = chunks.size() - batches_[batch].first_chunk;
  }
  if (chunks.empty()) return;
  row_table_ = upload(rows_.data(), rows_.size() * sizeof(AdamRow));
  chunk_table_ = upload(chunks.data(), chunks.size() * sizeof(AdamChunk));
}

bool AdamPlan::moved(size_t i) const {
  const Member& member = members_[i];
  const auto operands = adam_operands(lists_, i);
  const auto same = [&](const Tensor& tensor, size_t k) {
    return tensor.data_ptr() == member.data[k] && tensor.storage_offset() == member.offsets[k] &&
           tensor.scalar_type() == member.types[k] && equal(member.sizes, tensor.sizes()) &&
           equal(member.strides[k], tensor.strides());
  };
  for (size_t k = 0; k < kAdamOperands; ++k)
    if (operands[k].tensor && !same(*operands[k].tensor, k)) return true;
  return member.step && lists_.step_tensors[i].data_ptr() != member.step;
}

int64_t AdamPlan::first_moved() const {
  for (size_t i = 0; i < members_.size(); ++i)
    if (moved(i)) return static_cast<int64_t>(i);
  return -1;
}

}  // namespace mps_ds::mps
