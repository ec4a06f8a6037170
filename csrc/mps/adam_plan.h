// A list of params and their Adam states, registered once: the tables of kernels/adam_tables.h that
// outlive a step. A step brings gradients and numbers.
#pragma once

#import <Metal/Metal.h>

#include <memory>
#include <vector>

#include "adam_hyper.h"
#include "checks.h"
#include "mps/buffers.h"
#include "mps/kernels/adam_tables.h"

namespace mps_ds::mps {

// The gradients of one step: grads[k] belongs to params[rows[k]] and takes it to step count
// steps[k].
struct AdamStep {
  const Tensors& grads;
  const std::vector<int64_t>& rows;
  const std::vector<int64_t>& steps;
  const std::vector<AdamOptions>& groups;
};

class AdamPlan {
 public:
  // Checks everything that needs no gradient. `groups[i]`: the param group of params[i].
  AdamPlan(Tensors params, Tensors exp_avgs, Tensors exp_avg_sqs, std::vector<int64_t> groups);

  size_t size() const { return rows_.size(); }

  // The first param that it, or a state of it, has other memory or another shape than when the plan
  // was made (.data was replaced), or -1.
  int64_t first_moved() const;

  // Checks the step, then encodes it in one dispatch (none where there is nothing to do).
  void step(const AdamStep& step);

 private:
  struct Member {
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides[3];  // param, exp_avg, exp_avg_sq
    const void* data[3];              // what the three data pointers were
    bool flat;     // one run of consecutive elements, in the same order, in all three
    bool aligned;  // to 16 bytes, all three
  };
  struct Tables;  // what a step uploads

  bool moved(size_t i) const;
  Tables make_tables(const AdamStep& step) const;
  void set_layout(AdamStepRow& row, Tables& tables, size_t i, const Tensor& grad) const;
  void check_grads_apart(const AdamStep& step) const;
  Place add_written(const Tensor& tensor, ArgumentName name);

  Tensors params_;
  Tensors exp_avgs_;
  Tensors exp_avg_sqs_;
  std::vector<int64_t> groups_;
  std::vector<Member> members_;
  std::vector<AdamRow> rows_;
  std::vector<Extent> written_;
  std::shared_ptr<BufferSet> buffers_;
  size_t chunk_count_ = 0;
  Owned<id<MTLBuffer>> row_table_;
  Owned<id<MTLBuffer>> chunk_table_;
};

}  // namespace mps_ds::mps
