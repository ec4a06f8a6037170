// Lists of tensors as tables for kernels (kernels/tensor_rows.h): one row for N tensors of one
// shape.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "checks.h"
#include "joint_layout.h"
#include "mps/buffers.h"
#include "mps/kernels/tensor_rows.h"
#include "mps/storage.h"

namespace mps_ds::mps {

// A tensor's buffer, kept, with the offset of its first element.
struct Bound {
  Owned<id<MTLBuffer>> buffer;
  NSUInteger offset = 0;

  explicit Bound(const Tensor& tensor) {
    const Place place = place_of(tensor);
    buffer = Owned<id<MTLBuffer>>::retain(place.buffer);
    offset = static_cast<NSUInteger>(place.byte_offset);
  }
  void bind(id<MTLComputeCommandEncoder> encoder, NSUInteger index) const {
    [encoder setBuffer:buffer.get() offset:offset atIndex:index];
  }
};

// The buffers that a dispatch reaches by address: each in one of two sets, so that it is declared
// once. What is written is to be added before what is only read.
class RowBuffers {
 public:
  void reserve(size_t written, size_t read) {
    written_.reserve(written);
    read_.reserve(read);
  }
  // The address of a tensor's element 0; 0 where it has no elements.
  uint64_t add(const Tensor& tensor, Access access);
  void declare(id<MTLComputeCommandEncoder> encoder) const;

 private:
  BufferSet written_{MTLResourceUsageRead | MTLResourceUsageWrite};
  BufferSet read_{MTLResourceUsageRead};
};

// Tables in one upload: a kernel's arguments are offsets into it.
class Upload {
 public:
  // Appends at the next multiple of 16, which suits every type; returns where. An empty table takes
  // one entry's room, because every slot that a kernel names has to be bound.
  template <class T>
  size_t append(const std::vector<T>& table) {
    return append(table.data(), table.size() * sizeof(T),
                  std::max<size_t>(1, table.size()) * sizeof(T));
  }
  size_t append(const void* bytes, size_t length, size_t room);
  Owned<id<MTLBuffer>> buffer() const { return upload(bytes_.data(), bytes_.size()); }

 private:
  std::vector<char> bytes_;
};

template <size_t N>
class TensorTable {
 public:
  using Operands = std::array<const Tensor*, N>;

  void reserve(size_t count) { rows_.reserve(count); }

  // `addresses`: of the operands' elements 0.
  void add(const Operands& operands, const std::array<uint64_t, N>& addresses) {
    TensorRow<N> row{{}, static_cast<uint64_t>(operands[0]->numel()), 0, ROW_WIDE, 0, 0};
    bool aligned = true;
    for (size_t k = 0; k < N; ++k) {
      row.data[k] = addresses[k];
      row.types |= storage_type(*operands[k]) << (ROW_TYPE_BITS * k);
      aligned = aligned && addresses[k] % 16 == 0;
    }
    const auto dims = joint_dims<N>(operands);
    if (!is_flat(dims)) {
      set_dims(row, dims);
    } else if (!aligned) {
      row.layout = ROW_FLAT;
    }
    if (row.numel > 0) {
      if (rows_with_elements_++ == 0) types_ = row.types;
      if (types_ != row.types) one_type_ = false;
      if (row.layout != ROW_WIDE) all_wide_ = false;
    }
    rows_.push_back(row);
  }

  // The rows in pieces of `span` elements, one threadgroup's work each.
  std::vector<RowChunk> chunks(uint64_t span) const {
    std::vector<RowChunk> chunks;
    for (size_t row = 0; row < rows_.size(); ++row)
      for (uint64_t index = 0; index * span < rows_[row].numel; ++index)
        chunks.push_back({static_cast<uint32_t>(row), static_cast<uint32_t>(index)});
    return chunks;
  }

  const std::vector<TensorRow<N>>& rows() const { return rows_; }
  const std::vector<TensorDim<N>>& dims() const { return dims_; }
  bool all_wide() const { return all_wide_; }
  bool one_type() const { return one_type_; }  // all rows have types()
  uint32_t types() const { return types_; }

 private:
  void set_dims(TensorRow<N>& row, const std::vector<JointDim<N>>& dims) {
    row.layout = ROW_STRIDED;
    row.dim_begin = static_cast<uint32_t>(dims_.size());
    row.dim_count = static_cast<uint32_t>(dims.size());
    for (const JointDim<N>& dim : dims) {
      TensorDim<N> entry{static_cast<uint64_t>(dim.size), {}};
      std::copy(dim.strides.begin(), dim.strides.end(), entry.strides);
      dims_.push_back(entry);
    }
  }

  std::vector<TensorRow<N>> rows_;
  std::vector<TensorDim<N>> dims_;
  size_t rows_with_elements_ = 0;
  uint32_t types_ = 0;
  bool one_type_ = true;
  bool all_wide_ = true;
};

}  // namespace mps_ds::mps
