// The MPS backend of norms and overflow checks.
#include "mps/encode.h"
#include "mps/library.h"
#include "mps/tensor_list.h"
#include "norm_ops.h"

#include <torch/csrc/stable/ops.h>

#include "norm_source.h"

namespace mps_ds::mps {

Library& norm_library() {
  static Library library("norm", k_norm_source);
  return library;
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

NormResults compute(const NormRequest& request) {
  check_norm(request, DeviceType::MPS);
  const NormWork work = norm_work(request);
  NormResults results = new_norm_results(request);
  if (work.segments.empty()) return results;

  struct Held {
    RowBuffers buffers;
    Owned<id<MTLBuffer>> tables;
  };
  const auto held = std::make_shared<Held>();
  TensorTable<1> table;
  table.reserve(request.tensors.size());
  held->buffers.reserve(0, request.tensors.size());
  for (const Tensor& tensor : request.tensors)
    table.add({&tensor}, {held->buffers.add(tensor, Access::kRead)});

  Upload upload;
  const size_t segments_at = upload.append(work.segments);
  const size_t rows_at = upload.append(table.rows());
  const size_t chunks_at = upload.append(work.chunks);
  const size_t dims_at = upload.append(table.dims());
  held->tables = upload.buffer();

  const uint32_t kind = norm_kind(request);
  id<MTLComputePipelineState> partials_pipeline = pipeline_of(
      "norm_partials",
      {kind, table.one_type() ? table.types() : NORM_ANY_TYPE, table.all_wide() ? 0u : 1u});
  id<MTLComputePipelineState> finish_pipeline = pipeline_of("norm_finish", {kind, 0, 0});

  // PyTorch's memory: it is reused in the order of the stream, so it may be dropped at once.
  const int64_t bytes =
      static_cast<int64_t>(sizeof(NormPartial) * std::max<size_t>(1, work.chunks.size()));
  const Tensor partials = torch::stable::new_empty(request.tensors[0], {bytes}, ScalarType::Byte);
  const Bound partials_at(partials);
  // Every slot of the kernel is bound; segments say which are written.
  const std::optional<Tensor>* outputs[4] = {&results.entries, &results.total, &results.found_inf,
                                             &results.clip_coef};
  std::vector<Bound> bound;
  for (const auto* output : outputs) {
    const bool wanted = output->has_value() && (*output)->numel() > 0;
    bound.push_back(wanted ? Bound(**output) : partials_at);
  }
  std::optional<Bound> divisor;
  if (request.divisor) divisor.emplace(*request.divisor);
  const MTLSize threads = MTLSizeMake(NORM_THREADS, 1, 1);
  encode(
      [&](id<MTLComputeCommandEncoder> encoder) {
        if (!work.chunks.empty()) {
          [encoder setComputePipelineState:partials_pipeline];
          [encoder setBuffer:held->tables.get() offset:rows_at atIndex:0];
          [encoder setBuffer:held->tables.get() offset:chunks_at atIndex:1];
          [encoder setBuffer:held->tables.get() offset:dims_at atIndex:2];
          [encoder setBytes:&work.job length:sizeof(NormJob) atIndex:3];
          partials_at.bind(encoder, 4);
          held->buffers.declare(encoder);
          [encoder dispatchThreadgroups:MTLSizeMake(work.chunks.size(), 1, 1)
                  threadsPerThreadgroup:threads];
        }
        const float one = 1.0f;
        [encoder setComputePipelineState:finish_pipeline];
        partials_at.bind(encoder, 0);
        [encoder setBuffer:held->tables.get() offset:segments_at atIndex:1];
        [encoder setBytes:&work.job length:sizeof(NormJob) atIndex:2];
        if (divisor) {
          divisor->bind(encoder, 3);
        } else {
          [encoder setBytes:&one length:sizeof(one) atIndex:3];
        }
        for (size_t i = 0; i < bound.size(); ++i) bound[i].bind(encoder, 4 + i);
        [encoder dispatchThreadgroups:MTLSizeMake(work.segments.size(), 1, 1)
                threadsPerThreadgroup:threads];
      },
      held);
  return results;
}

STABLE_TORCH_LIBRARY_IMPL(mps_ds, MPS, m) {
  NormOps<compute>::register_in(m);
}

}  // namespace
}  // namespace mps_ds::mps
