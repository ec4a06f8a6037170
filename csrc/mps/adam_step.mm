#include "mps/adam_step.h"

#include <algorithm>

#include "joint_layout.h"
#include "mps/encode.h"
#include "mps/kernels/adam_scalars.h"
#include "mps/library.h"
#include "mps/storage.h"
#include "mps/tensor_list.h"

namespace mps_ds::mps {

static_assert(sizeof(AdamStepRow) == 32 && sizeof(AdamDim) == 56 && sizeof(AdamHyper) == 120 &&
                  sizeof(AdamCall) == 24 && sizeof(AdamProgress) == 20,
              "the layouts that adam.metal reads");

namespace {

bool same_progress(const AdamOptions& a, const AdamOptions& b) {
  return a.beta1 == b.beta1 && a.beta2 == b.beta2 && a.bias_correction == b.bias_correction;
}

}  // namespace

AdamStep::AdamStep(AdamPlan& plan, AdamInput input) : plan_(plan), input_(std::move(input)) {
  check_adam_scalars(input_.scalars, input_.groups.size(), DeviceType::MPS);
  factors_ = take_cpu_scalars(input_.scalars, input_.groups);
  for (const AdamOptions& options : input_.groups) check_adam_options(options);
  MPS_DS_CHECK(plan_.group_count_ <= input_.groups.size(), "options has ", input_.groups.size(),
               " param groups, the plan ", plan_.group_count_);
  rows_.assign(plan_.size(), {0, 0, 0, ADAM_SKIP, 0, 0});
  buffers_->reserve(input_.grads.size());
  AdamHypers hypers(input_.groups);
  if (device_steps()) {
    // One entry a group: adam_start and the kernel put the step count in.
    for (size_t group = 0; group < input_.groups.size(); ++group)
      hypers.index(static_cast<int64_t>(group), 1);
    for (size_t i = 0; i < rows_.size(); ++i)
      rows_[i].hyper = static_cast<uint32_t>(plan_.groups_[i]);
  }
  for (size_t k = 0; k < input_.grads.size(); ++k) add_grad(k, hypers);
  add_scalars();
  if (shares_buffer_) check_reads_apart();
  hypers_ = hypers.table();
}

void AdamStep::add_grad(size_t k, AdamHypers& hypers) {
  const Tensor& grad = input_.grads[k];
  const size_t i = static_cast<size_t>(input_.rows[k]);
  MPS_DS_CHECK(i < plan_.size() && rows_[i].flags == ADAM_SKIP, "rows[", k, "] is ", input_.rows[k],
               "; each must be another param of the ", plan_.size(), " in the plan");
  check_adam_grad(grad, k, plan_.lists_, i);
  const uint32_t type = storage_type(grad);
  AdamStepRow& row = rows_[i];
  row.flags = type << 8;
  if (!device_steps()) row.hyper = hypers.index(plan_.groups_[i], input_.steps[k]);
  if (grad.numel() == 0) {
    if (device_steps()) dispatch_of(i, type);
    return;
  }
  const Place place = place_of(grad);
  shares_buffer_ |= plan_.buffers_->contains(place.buffer);
  row.grad = address_of(place);
  if (!input_.scalars.lrs.empty())
    row.lr = address_of(place_of(input_.scalars.lrs[static_cast<size_t>(plan_.groups_[i])]));
  set_layout(row, i, grad);
}

// A buffer is declared once: with what the plan writes, or here.
uint64_t AdamStep::address_of(const Place& place) {
  if (plan_.buffers_->contains(place.buffer)) return plan_.buffers_->address(place);
  return buffers_->add(place);
}

// How the kernel walks the tensors of a row.
void AdamStep::set_layout(AdamStepRow& row, size_t i, const Tensor& grad) {
  const AdamPlan::Member& member = plan_.members_[i];
  Dispatch& dispatch = dispatch_of(i, storage_type(grad));
  std::vector<JointDim<ADAM_OPERANDS>> dims;
  bool flat = member.flat && equal(member.strides[0], grad.strides());
  if (!flat) {
    const auto operands = adam_operands(plan_.lists_, i);
    std::array<const Tensor*, ADAM_OPERANDS> tensors{operands[0].tensor, &grad};
    for (size_t k = 1; k < kAdamOperands; ++k)
      tensors[k + 1] = operands[k].tensor ? operands[k].tensor : operands[0].tensor;
    dims = joint_dims<ADAM_OPERANDS>(tensors);
    flat = is_flat(dims);
  }
  if (flat) {
    if (member.aligned && row.grad % 16 == 0) row.flags |= ADAM_WIDE;
    return;
  }
  row.flags |= ADAM_STRIDED;
  row.dim_begin = static_cast<uint32_t>(dims_.size());
  row.dim_count = static_cast<uint32_t>(dims.size());
  for (const auto& dim : dims) {
    AdamDim entry{static_cast<uint64_t>(dim.size), {}};
    std::copy(dim.strides.begin(), dim.strides.end(), entry.strides);
    dims_.push_back(entry);
  }
  dispatch.strided = true;
}

AdamStep::Dispatch& AdamStep::dispatch_of(size_t i, uint32_t grad_type) {
  const size_t batch = plan_.members_[i].batch;
  for (Dispatch& dispatch : dispatches_)
    if (dispatch.batch == batch && dispatch.grad_type == grad_type) return dispatch;
  dispatches_.push_back({batch, grad_type, false});
  return dispatches_.back();
}

// Whether a number on the GPU is in memory that the step writes shows in its buffer first.
void AdamStep::add_scalars() {
  for (const auto& [tensor, name] : named_scalars(input_.scalars))
    shares_buffer_ |= plan_.buffers_->contains(place_of(*tensor).buffer);
}

void AdamStep::check_reads_apart() const {
  std::vector<Extent> extents = plan_.written_;
  const auto add = [&](const Tensor& tensor, ArgumentName name) {
    if (tensor.numel() == 0) return;
    const Place place = place_of(tensor);
    extents.push_back(extent_of(tensor, name, Access::kRead, (__bridge const void*)place.buffer,
                                place.byte_offset));
  };
  for (size_t k = 0; k < input_.grads.size(); ++k) add(input_.grads[k], {"grads", k});
  for (const auto& [tensor, name] : named_scalars(input_.scalars)) add(*tensor, name);
  check_disjoint(std::move(extents));
}

// Whether the progress tables say where the params are, for the betas of this step.
bool AdamStep::must_start() const {
  if (!device_steps()) return false;
  const auto& known = plan_.progress_options_;
  return input_.steps_changed || known.size() != input_.groups.size() ||
         !std::equal(known.begin(), known.end(), input_.groups.begin(), same_progress);
}

// One upload for what changes. Never into the buffer of an earlier step, which may not have run.
AdamStep::Tables AdamStep::upload_tables() {
  Upload tables;
  tables.append(rows_);
  const size_t hypers_at = tables.append(hypers_);
  const size_t dims_at = tables.append(dims_);
  return {tables.buffer(), hypers_at, dims_at};
}

id<MTLComputePipelineState> AdamStep::pipeline(const Dispatch& dispatch) const {
  const AdamTypes& types = plan_.batches_[dispatch.batch].types;
  return adam_library().pipeline(
      "adam", {types.param, dispatch.grad_type, types.state, types.copy, types.amsgrad,
               dispatch.strided, device_steps(), input_.seed && types.param == STORAGE_BFLOAT16});
}

void AdamStep::start(id<MTLComputeCommandEncoder> encoder, const Tables& tables,
                     id<MTLComputePipelineState> pipeline) const {
  const uint32_t count = static_cast<uint32_t>(plan_.size());
  [encoder setComputePipelineState:pipeline];
  [encoder setBuffer:plan_.row_table_.get() offset:0 atIndex:0];
  [encoder setBuffer:tables.buffer.get() offset:0 atIndex:1];
  [encoder setBuffer:tables.buffer.get() offset:tables.hypers_at atIndex:2];
  [encoder setBytes:&count length:sizeof(count) atIndex:4];
  const NSUInteger width =
      std::min<NSUInteger>(ADAM_THREADS(STORAGE_FLOAT32), [pipeline maxTotalThreadsPerThreadgroup]);
  // Both tables: params of different types may be in different ones.
  for (const auto& table : plan_.progress_tables_) {
    [encoder setBuffer:table.get() offset:0 atIndex:3];
    [encoder dispatchThreadgroups:MTLSizeMake((count + width - 1) / width, 1, 1)
            threadsPerThreadgroup:MTLSizeMake(width, 1, 1)];
  }
}

// What all dispatches share.
void AdamStep::bind(id<MTLComputeCommandEncoder> encoder, const Tables& tables) const {
  AdamCall call{static_cast<uint64_t>(input_.seed.value_or(0)), factors_.grad_scale,
                factors_.clip_coef, 0};
  // Every slot is bound; what a call does not have is never read.
  const auto scalar = [&](const std::optional<Tensor>& tensor, NSUInteger slot, uint32_t flag) {
    if (!tensor) return [encoder setBuffer:tables.buffer.get() offset:0 atIndex:slot];
    const Place place = place_of(*tensor);
    call.flags |= flag;
    [encoder setBuffer:place.buffer offset:static_cast<NSUInteger>(place.byte_offset) atIndex:slot];
  };
  [encoder setBuffer:plan_.row_table_.get() offset:0 atIndex:0];
  [encoder setBuffer:tables.buffer.get() offset:0 atIndex:2];
  [encoder setBuffer:tables.buffer.get() offset:tables.hypers_at atIndex:3];
  [encoder setBuffer:tables.buffer.get() offset:tables.dims_at atIndex:4];
  scalar(input_.scalars.found_inf, 6, ADAM_FOUND_INF);
  scalar(input_.scalars.grad_scale, 7, ADAM_GRAD_SCALE);
  scalar(input_.scalars.clip_coef, 8, ADAM_CLIP_COEF);
  scalar(input_.scalars.clip_value, 9, ADAM_CLIP_VALUE_TENSOR);
  [encoder setBytes:&call length:sizeof(call) atIndex:5];
}

void AdamStep::dispatch(id<MTLComputeCommandEncoder> encoder, const Dispatch& dispatch,
                        id<MTLComputePipelineState> pipeline) const {
  const AdamBatch& batch = plan_.batches_[dispatch.batch];
  [encoder setComputePipelineState:pipeline];
  [encoder setBuffer:plan_.chunk_table_.get()
              offset:batch.first_chunk * sizeof(AdamChunk)
             atIndex:1];
  // Without step counts on the device, the row table stands in: it is not read there.
  for (NSUInteger k = 0; k < 2; ++k) {
    const auto& table = plan_.progress_tables_[k == 0 ? batch.progress : 1 - batch.progress];
    [encoder setBuffer:table ? table.get() : plan_.row_table_.get() offset:0 atIndex:10 + k];
  }
  const NSUInteger threads = std::min<NSUInteger>(ADAM_THREADS(batch.types.state),
                                                  [pipeline maxTotalThreadsPerThreadgroup]);
  [encoder dispatchThreadgroups:MTLSizeMake(batch.chunk_count, 1, 1)
          threadsPerThreadgroup:MTLSizeMake(threads, 1, 1)];
}

// The table that was written is read next.
void AdamStep::turn_progress(bool started) {
  if (!device_steps()) return;
  std::vector<bool> turned(plan_.batches_.size());
  for (const Dispatch& item : dispatches_) turned[item.batch] = true;
  for (size_t batch = 0; batch < turned.size(); ++batch)
    if (turned[batch]) plan_.batches_[batch].progress ^= 1;
  if (started) plan_.progress_options_ = input_.groups;
}

void AdamStep::encode() {
  if (dispatches_.empty() || factors_.skip) {
    // The step counts that somebody has written are taken in by the next one.
    if (input_.steps_changed) plan_.progress_options_.clear();
    return;
  }
  const Tables tables = upload_tables();
  const bool starts = must_start();
  id<MTLComputePipelineState> start_pipeline = starts ? adam_library().pipeline("adam_start") : nil;
  std::vector<id<MTLComputePipelineState>> pipelines;
  for (const Dispatch& item : dispatches_) pipelines.push_back(pipeline(item));

  struct Held {
    std::shared_ptr<BufferSet> plan, step;
    Owned<id<MTLBuffer>> rows, chunks, progress[2], tables;
  };
  const auto held =
      std::make_shared<Held>(Held{plan_.buffers_,
                                  buffers_,
                                  plan_.row_table_,
                                  plan_.chunk_table_,
                                  {plan_.progress_tables_[0], plan_.progress_tables_[1]},
                                  tables.buffer});
  mps::encode(
      [&](id<MTLComputeCommandEncoder> encoder) {
        plan_.buffers_->declare(encoder);
        buffers_->declare(encoder);
        if (starts) start(encoder, tables, start_pipeline);
        bind(encoder, tables);
        for (size_t k = 0; k < dispatches_.size(); ++k)
          dispatch(encoder, dispatches_[k], pipelines[k]);
      },
      held);
  turn_progress(starts);
}

}  // namespace mps_ds::mps
