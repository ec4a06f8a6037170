// The MPS backend of scaling: one dispatch, whatever the types and layouts of the lists are.
#include "scale_ops.h"

#include <algorithm>

#include "mps/encode.h"
#include "mps/library.h"
#include "mps/tensor_list.h"
#include "scale_source.h"

namespace mps_ds::mps {

Library& scale_library() {
  static Library library("scale", k_scale_source);
  return library;
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

std::vector<RowChunk> chunks_of(const Table& table) {
  std::vector<RowChunk> chunks;
  for (size_t row = 0; row < table.rows().size(); ++row)
    for (uint64_t index = 0; index * SCALE_CHUNK < table.rows()[row].numel; ++index)
      chunks.push_back({static_cast<uint32_t>(row), static_cast<uint32_t>(index)});
  return chunks;
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

void run(const ScaleRequest& request) {
  check_scale(request, DeviceType::MPS, locate);
  struct Held {
    RowBuffers buffers;
    Owned<id<MTLBuffer>> tables;
  };
  const auto held = std::make_shared<Held>();
  const Table table = table_of(request, held->buffers);
  const std::vector<RowChunk> chunks = chunks_of(table);
  if (chunks.empty()) return;

  Upload upload;
  const size_t rows_at = upload.append(table.rows());
  const size_t chunks_at = upload.append(chunks);
  const size_t dims_at = upload.append(table.dims());
  held->tables = upload.buffer();
  const ScaleJob job{static_cast<float>(request.b), request.found_inf ? found_bits(request) : 0};
  const float a = static_cast<float>(request.a);
  std::optional<Bound> a_at, found_at;
  if (request.a_tensor) a_at.emplace(*request.a_tensor);
  if (request.found_inf) found_at.emplace(*request.found_inf);

  id<MTLComputePipelineState> pipeline = pipeline_of(request, table);
  const NSUInteger threads =
      std::min<NSUInteger>(SCALE_THREADS, [pipeline maxTotalThreadsPerThreadgroup]);
  encode(
      [&](id<MTLComputeCommandEncoder> encoder) {
        [encoder setComputePipelineState:pipeline];
        [encoder setBuffer:held->tables.get() offset:rows_at atIndex:0];
        [encoder setBuffer:held->tables.get() offset:chunks_at atIndex:1];
        [encoder setBuffer:held->tables.get() offset:dims_at atIndex:2];
        [encoder setBytes:&job length:sizeof(job) atIndex:3];
        if (a_at) {
          a_at->bind(encoder, 4);
        } else {
          [encoder setBytes:&a length:sizeof(a) atIndex:4];
        }
        if (found_at) {
          found_at->bind(encoder, 5);
        } else {  // never written
          [encoder setBuffer:held->tables.get() offset:0 atIndex:5];
        }
        held->buffers.declare(encoder);
        [encoder dispatchThreadgroups:MTLSizeMake(chunks.size(), 1, 1)
                threadsPerThreadgroup:MTLSizeMake(threads, 1, 1)];
      },
      held);
}

STABLE_TORCH_LIBRARY_IMPL(mps_ds, MPS, m) {
  ScaleOps<run>::register_in(m);
}

}  // namespace
}  // namespace mps_ds::mps
