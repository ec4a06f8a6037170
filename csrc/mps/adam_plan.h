// A list of params and their Adam states, registered once: the tables of kernels/adam_tables.h that
// outlive a step. A step (adam_step.h) brings gradients and numbers.
#pragma once

#import <Metal/Metal.h>

#include <memory>
#include <vector>

#include "adam_lists.h"
#include "mps/buffers.h"
#include "mps/kernels/adam_tables.h"

namespace mps_ds::mps {

// Params of one combination of types: what a pipeline is made for.
struct AdamTypes {
  uint32_t param;
  uint32_t state;
  uint32_t copy;
  bool amsgrad;
  bool operator==(const AdamTypes&) const = default;
};

// The chunks of the params of one combination stand together in the chunk table.
struct AdamBatch {
  AdamTypes types;
  size_t first_chunk = 0;
  size_t chunk_count = 0;
  // Which of the plan's two progress tables says where these params are.
  size_t progress = 0;
};

class AdamPlan {
 public:
  // Checks everything that needs no gradient. `groups[i]`: the param group of params[i].
  AdamPlan(AdamLists lists, std::vector<int64_t> groups);

  size_t size() const { return rows_.size(); }
  const AdamLists& lists() const { return lists_; }

  // The first param that it, or a tensor of it, has other memory or another shape than when the
  // plan was made (.data was replaced), or -1.
  int64_t first_moved() const;

 private:
  friend class AdamStep;

  struct Member {
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides[kAdamOperands];
    const void* data[kAdamOperands];  // what the data pointers were
    const void* step;
    int64_t offsets[kAdamOperands];  // a pointer is its buffer plus this: both tell the memory
    ScalarType types[kAdamOperands];
    size_t batch;
    bool flat;     // one run of consecutive elements, in the same order, in all
    bool aligned;  // to 16 bytes, all
  };

  void add_row(size_t i);
  uint64_t add_written(const Tensor& tensor, ArgumentName name);
  size_t batch_of(size_t i);
  void make_chunks();
  bool moved(size_t i) const;

  AdamLists lists_;
  std::vector<int64_t> groups_;
  size_t group_count_ = 0;  // one more than the largest of groups_
  std::vector<Member> members_;
  std::vector<AdamRow> rows_;
  std::vector<AdamBatch> batches_;
  std::vector<Extent> written_;
  std::shared_ptr<BufferSet> buffers_;
  Owned<id<MTLBuffer>> row_table_;
  Owned<id<MTLBuffer>> chunk_table_;

  // With step counts on the device: see adam_start in adam.metal.
  Owned<id<MTLBuffer>> progress_tables_[2];
  std::vector<AdamOptions> progress_options_;  // what the tables were computed with
};

}  // namespace mps_ds::mps
