// The MPS backend of norms and overflow checks.
#include "mps/encode.h"
#include "mps/library.h"
#include "mps/tensor_list.h"
#include "norm_ops.h"

#include "norm_source.h"

namespace mps_ds::mps {

Library& norm_library() {
  static Library* library = new Library("norm", k_norm_source);
  return *library;
}

namespace {

static_assert(sizeof(NormPartial) == 16 && sizeof(NormSegment) == 16 && sizeof(NormJob) == 12,
              "the layouts that norm.metal reads");

id<MTLComputePipelineState> pipeline_of(const char* kernel, std::vector<uint32_t> constants) {
  id<MTLComputePipelineState> pipeline = norm_library().pipeline(kernel, constants);
  MPS_DS_CHECK([pipeline maxTotalThreadsPerThreadgroup] >= NORM_THREADS, kernel, " can have ",
               [pipeline maxTotalThreadsPerThreadgroup], " threads on this device; it needs ",
               NORM_THREADS);
  return pipeline;
}

// The two dispatches of one request.
class NormDispatches {
 public:
  NormDispatches(const NormRequest& request, const NormWork& work, const NormResults& results)
      : work_(work),
        partials_tensor_(new_partials(request, work)),
        partials_(partials_tensor_),
        divisor_(bound_or_none(request.divisor)) {
    // Every slot of a kernel is bound; the segments say which of these are written.
    for (const auto* output :
         {&results.entries, &results.total, &results.found_inf, &results.clip_coef})
      outputs_.push_back(bound_or_none(*output).value_or(partials_));

    TensorTable<1> table;
    table.reserve(request.tensors.size());
    held_->buffers.reserve(0, request.tensors.size());
    for (const Tensor& tensor : request.tensors)
      table.add({&tensor}, {held_->buffers.add(tensor, Access::kRead)});
    const uint32_t kind = norm_kind(request);
    const uint32_t type = table.one_type() ? table.types() : NORM_ANY_TYPE;
    partials_pipeline_ = pipeline_of("norm_partials", {kind, type, table.all_wide() ? 0u : 1u});
    finish_pipeline_ = pipeline_of("norm_finish", {kind, 0, 0});

    Upload upload;
    segments_at_ = upload.append(work_.segments);
    rows_at_ = upload.append(table.rows());
    chunks_at_ = upload.append(work_.chunks);
    dims_at_ = upload.append(table.dims());
    held_->tables = upload.buffer();
  }

  void encode_all() const {
    encode(
        [&](id<MTLComputeCommandEncoder> encoder) {
          if (!work_.chunks.empty()) encode_partials(encoder);
          encode_finish(encoder);
        },
        held_);
  }

 private:
  struct Held {
    RowBuffers buffers;
    Owned<id<MTLBuffer>> tables;
  };

  // PyTorch's memory: it is reused in the order of the stream, so it may go once this is encoded.
  static Tensor new_partials(const NormRequest& request, const NormWork& work) {
    const size_t count = std::max<size_t>(1, work.chunks.size());
    const int64_t bytes = static_cast<int64_t>(count * sizeof(NormPartial));
    return allocate(request.tensors[0], {bytes}, ScalarType::Byte);
  }

  static std::optional<Bound> bound_or_none(const std::optional<Tensor>& tensor) {
    if (!tensor || tensor->numel() == 0) return std::nullopt;
    return Bound(*tensor);
  }

  void set_table(id<MTLComputeCommandEncoder> encoder, size_t offset, NSUInteger index) const {
    [encoder setBuffer:held_->tables.get() offset:offset atIndex:index];
  }

  void encode_partials(id<MTLComputeCommandEncoder> encoder) const {
    [encoder setComputePipelineState:partials_pipeline_];
    set_table(encoder, rows_at_, 0);
    set_table(encoder, chunks_at_, 1);
    set_table(encoder, dims_at_, 2);
    [encoder setBytes:&work_.job length:sizeof(NormJob) atIndex:3];
    partials_.bind(encoder, 4);
    held_->buffers.declare(encoder);
    dispatch(encoder, work_.chunks.size());
  }

  void encode_finish(id<MTLComputeCommandEncoder> encoder) const {
    const float one = 1.0f;
    [encoder setComputePipelineState:finish_pipeline_];
    partials_.bind(encoder, 0);
    set_table(encoder, segments_at_, 1);
    [encoder setBytes:&work_.job length:sizeof(NormJob) atIndex:2];
    if (divisor_) {
      divisor_->bind(encoder, 3);
    } else {
      [encoder setBytes:&one length:sizeof(one) atIndex:3];
    }
    for (size_t i = 0; i < outputs_.size(); ++i) outputs_[i].bind(encoder, 4 + i);
    dispatch(encoder, work_.segments.size());
  }

  static void dispatch(id<MTLComputeCommandEncoder> encoder, size_t groups) {
    [encoder dispatchThreadgroups:MTLSizeMake(groups, 1, 1)
            threadsPerThreadgroup:MTLSizeMake(NORM_THREADS, 1, 1)];
  }

  const NormWork& work_;
  const std::shared_ptr<Held> held_ = std::make_shared<Held>();
  const Tensor partials_tensor_;
  const Bound partials_;
  std::optional<Bound> divisor_;
  std::vector<Bound> outputs_;
  id<MTLComputePipelineState> partials_pipeline_ = nil;
  id<MTLComputePipelineState> finish_pipeline_ = nil;
  size_t segments_at_ = 0, rows_at_ = 0, chunks_at_ = 0, dims_at_ = 0;
};

NormResults compute(const NormRequest& request) {
  check_norm(request, DeviceType::MPS);
  const NormWork work = norm_work(request);
  const NormResults results = new_norm_results(request);
  if (!work.segments.empty()) {
    @autoreleasepool {
      NormDispatches(request, work, results).encode_all();
    }
  }
  return results;
}

STABLE_TORCH_LIBRARY_IMPL(mps_ds, MPS, m) {
  NormOps<compute>::register_in(m);
}

}  // namespace
}  // namespace mps_ds::mps
