#include "cpu_adam/lists.h"

namespace mps_ds::cpu_adam {

AdamStreamTensors streams_of(const AdamLists& lists, size_t i, const Tensor& grad) {
  const auto operands = adam_operands(lists, i);
  AdamStreamTensors streams{operands[0].tensor, &grad};
  for (size_t k = 1; k < kAdamOperands; ++k) streams[k + 1] = operands[k].tensor;
  return streams;
}

void check_apart(const AdamLists& lists, const Tensors& grads) {
  std::vector<Extent> extents;
  const auto add = [&](const Tensor& tensor, ArgumentName name, Access access) {
    if (tensor.numel() == 0) return;
    // One address space: byte offsets from 0 tell all storages apart.
    extents.push_back(extent_of(tensor, name, access, nullptr,
                                reinterpret_cast<int64_t>(tensor.const_data_ptr())));
  };
  for (size_t i = 0; i < lists.size(); ++i) {
    for (const AdamOperand& operand : adam_operands(lists, i))
      if (operand.tensor) add(*operand.tensor, {operand.list, i}, Access::kWrite);
    if (!lists.step_tensors.empty())
      add(lists.step_tensors[i], {"step_tensors", i}, Access::kWrite);
  }
  for (size_t k = 0; k < grads.size(); ++k) add(grads[k], {"grads", k}, Access::kRead);
  check_disjoint(std::move(extents));
}

}  // namespace mps_ds::cpu_adam
