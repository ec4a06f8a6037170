// One step of an AdamPlan.
#pragma once

#include "mps/adam_plan.h"

namespace mps_ds::mps {

class AdamStep {
 public:
  // Checks everything; nothing is written yet.
  AdamStep(AdamPlan& plan, AdamInput input);

  // Encodes one dispatch for each combination of types (none where there is nothing to do).
  void encode();

 private:
  struct Dispatch {
    size_t batch;
    uint32_t grad_type;
    bool strided;
  };
  struct Tables {
    Owned<id<MTLBuffer>> buffer;
    size_t hypers_at;
    size_t dims_at;
  };

  void add_grad(size_t k, AdamHypers& hypers);
  void set_layout(AdamStepRow& row, size_t i, const Tensor& grad);
  uint64_t address_of(const Place& place);
  Dispatch& dispatch_of(size_t i, uint32_t grad_type);
  void add_scalars();
  void check_reads_apart() const;
  bool device_steps() const { return !plan_.lists_.step_tensors.empty(); }
  bool must_start() const;
  Tables upload_tables();
  id<MTLComputePipelineState> pipeline(const Dispatch& dispatch) const;
  void start(id<MTLComputeCommandEncoder> encoder, const Tables& tables,
             id<MTLComputePipelineState> pipeline) const;
  void bind(id<MTLComputeCommandEncoder> encoder, const Tables& tables) const;
  void dispatch(id<MTLComputeCommandEncoder> encoder, const Dispatch& dispatch,
                id<MTLComputePipelineState> pipeline) const;
  void turn_progress(bool started);

  AdamPlan& plan_;
  AdamInput input_;
  AdamFactors factors_;
  std::vector<AdamStepRow> rows_;
  std::vector<AdamHyper> hypers_;
  std::vector<AdamDim> dims_;
  std::vector<Dispatch> dispatches_;
  // Of gradients and of lrs.
  std::shared_ptr<BufferSet> buffers_ = std::make_shared<BufferSet>(MTLResourceUsageRead);
  bool shares_buffer_ = false;
};

}  // namespace mps_ds::mps
