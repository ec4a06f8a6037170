// The MPS backend of scaling: one dispatch, whatever the types and layouts of the lists are.
#include "scale_ops.h"

#include <algorithm>

#include "mps/encode.h"
#include "mps/library.h"
#include "mps/tensor_list.h"
#include "scale_source.h"

namespace mps_ds::mps {

Library& scale_library() {
  static Library* library = new Library("scale", k_scale_source);
  return *library;
}

namespace {

using Table = TensorTable<SCALE_OPERANDS>;

static_assert(sizeof(ScaleJob) == 8, "the layout that scale.metal reads");

std::pair<const void*, int64_t> locate(const Tensor& tensor) {
  const Place place = place_of(tensor);
  return {(__bridge const void*)place.buffer, place.byte_offset};
}

// Rows of x, y and out; x stands in for a y that is not there.
Table table_of(const ScaleRequest& request, RowBuffers& buffers) {
  const size_t count = request.x.size();
  const Tensors& y = request.y ? *request.y : request.x;
  Table table;
  table.reserve(count);
  buffers.reserve(count, request.in_place() ? 0 : count);
  std::vector<uint64_t> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = buffers.add(request.out[i], Access::kWrite);
  for (size_t i = 0; i < count; ++i)
    table.add({&request.x[i], &y[i], &request.out[i]},
              {buffers.add(request.x[i], Access::kRead), buffers.add(y[i], Access::kRead), out[i]});
  return table;
}

id<MTLComputePipelineState> pipeline_of(const ScaleRequest& request, const Table& table) {
  std::vector<uint32_t> constants(3, SCALE_ANY_TYPE);
  for (uint32_t k = 0; table.one_type() && k < constants.size(); ++k)
    constants[k] = table.types() >> (ROW_TYPE_BITS * k) & ((1u << ROW_TYPE_BITS) - 1);
  for (const bool flag : {!table.all_wide(), request.y != nullptr, request.checks_x,
                          request.checks_y, request.in_place()})
    constants.push_back(flag ? 1 : 0);
  return scale_library().pipeline("scale", constants);
}

// The dispatch of one request.
class ScaleDispatch {
 public:
  explicit ScaleDispatch(const ScaleRequest& request)
      : job_{static_cast<float>(request.b), request.found_inf ? found_bits(request) : 0},
        a_(static_cast<float>(request.a)) {
    if (request.a_tensor) a_at_.emplace(*request.a_tensor);
    if (request.found_inf) found_at_.emplace(*request.found_inf);
    const Table table = table_of(request, held_->buffers);
    const std::vector<RowChunk> chunks = table.chunks(SCALE_CHUNK);
    chunk_count_ = chunks.size();
    Upload upload;
    rows_at_ = upload.append(table.rows());
    chunks_at_ = upload.append(chunks);
    dims_at_ = upload.append(table.dims());
    held_->tables = upload.buffer();
    pipeline_ = pipeline_of(request, table);
  }

  void encode_it() const {
    if (chunk_count_ == 0) return;
    encode([&](id<MTLComputeCommandEncoder> encoder) { encode_into(encoder); }, held_);
  }

 private:
  struct Held {
    RowBuffers buffers;
    Owned<id<MTLBuffer>> tables;
  };

  void set_table(id<MTLComputeCommandEncoder> encoder, size_t offset, NSUInteger index) const {
    [encoder setBuffer:held_->tables.get() offset:offset atIndex:index];
  }

  void encode_into(id<MTLComputeCommandEncoder> encoder) const {
    [encoder setComputePipelineState:pipeline_];
    set_table(encoder, rows_at_, 0);
    set_table(encoder, chunks_at_, 1);
    set_table(encoder, dims_at_, 2);
    [encoder setBytes:&job_ length:sizeof(job_) atIndex:3];
    if (a_at_) {
      a_at_->bind(encoder, 4);
    } else {
      [encoder setBytes:&a_ length:sizeof(a_) atIndex:4];
    }
    if (found_at_) {
      found_at_->bind(encoder, 5);
    } else {
      set_table(encoder, 0, 5);  // never written
    }
    held_->buffers.declare(encoder);
    const NSUInteger threads =
        std::min<NSUInteger>(SCALE_THREADS, [pipeline_ maxTotalThreadsPerThreadgroup]);
    [encoder dispatchThreadgroups:MTLSizeMake(chunk_count_, 1, 1)
            threadsPerThreadgroup:MTLSizeMake(threads, 1, 1)];
  }

  const std::shared_ptr<Held> held_ = std::make_shared<Held>();
  const ScaleJob job_;
  const float a_;
  std::optional<Bound> a_at_;  // instead of a_
  std::optional<Bound> found_at_;
  id<MTLComputePipelineState> pipeline_ = nil;
  size_t rows_at_ = 0, chunks_at_ = 0, dims_at_ = 0;
  size_t chunk_count_ = 0;
};

void run(const ScaleRequest& request) {
  check_scale(request, DeviceType::MPS, locate);
  @autoreleasepool {
    ScaleDispatch(request).encode_it();
  }
}

STABLE_TORCH_LIBRARY_IMPL(mps_ds, MPS, m) {
  ScaleOps<run>::register_in(m);
}

}  // namespace
}  // namespace mps_ds::mps
