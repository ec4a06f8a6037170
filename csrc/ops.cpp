// The operators: the table of contents of the native code. Python's side is mps_ds/ops.
//
// MPS kernels are in csrc/mps, CPU kernels in csrc/cpu_adam. The kernels here answer calls that
// name no device (empty lists), and calls on a device that has no kernel.
#include <torch/csrc/stable/library.h>

#include "adam_ops.h"

namespace mps_ds {
namespace {

void adam_elsewhere(const AdamLists& lists, AdamInput input) {
  for (const AdamOptions& group : input.groups) check_adam_options(group);
  const Tensors& params = lists.params;
  const DeviceType device = params.empty() ? DeviceType::MPS : params[0].device().type();
  const bool known = device == DeviceType::MPS || device == DeviceType::CPU;
  check_adam_lists(lists, known ? device : DeviceType::MPS);  // names what is wrong
  for (size_t i = 0; i < params.size(); ++i) check_adam_grad(input.grads[i], i, lists, i);
  MPS_DS_CHECK(params.empty(), "adam_ has no kernel for ", device_name(device),
               " in this build (MPS_DS_BUILD=cpu builds none for mps)");
}

}  // namespace

STABLE_TORCH_LIBRARY(mps_ds, m) {
  // One Adam or AdamW step over lists of tensors, in place, in one dispatch for each combination of
  // types. `options`: lr, beta1, beta2, eps, weight_decay, adam_w_mode, bias_correction, maximize,
  // clip_value of each param group, one after the other; groups[i] is that of params[i], and none
  // mean one. max_exp_avg_sqs (amsgrad; of amsgrad_rows, or of all), copies (16-bit params) and
  // step_tensors (step counts on the device, instead of steps) may be empty. The scalars are read
  // where the params are.
  m.def(
      "adam_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, "
      "Tensor(d!)[] max_exp_avg_sqs, int[] amsgrad_rows, Tensor(e!)[] copies, "
      "Tensor(f!)[] step_tensors, int[] groups, int[] steps, float[] options, Tensor[] lr_tensors, "
      "Tensor? grad_scale, Tensor? found_inf, "
      "Tensor? clip_coef, Tensor? clip_value, int? seed) -> ()");

  // The same with tables that outlive the step. Private: what a plan writes stands in no schema.
  // Registers params and their states. A handle.
  m.def(
      "_adam_plan(Tensor[] params, Tensor[] exp_avgs, Tensor[] exp_avg_sqs, "
      "Tensor[] max_exp_avg_sqs, int[] amsgrad_rows, Tensor[] copies, Tensor[] step_tensors, "
      "int[] groups) -> int");
  // One step; `rows[i]` is the param that grads[i] belongs to (all of them, if empty). Returns the
  // first param whose memory has moved (nothing was done then), or -1.
  m.def(
      "_adam_plan_step(int plan, Tensor[] grads, int[] rows, int[] steps, float[] options, "
      "Tensor[] lr_tensors, Tensor? grad_scale, Tensor? found_inf, Tensor? clip_coef, "
      "Tensor? clip_value, int? seed, bool steps_changed) -> int");
  m.def("_adam_plan_free(int plan) -> ()");

  // Norms and overflow checks, from one read of the data, in two dispatches. Results are new
  // float32 tensors on the device of the tensors. norm_type: 2 or inf.
  // The norm of all, and of each where asked for (of none otherwise).
  m.def(
      "multi_tensor_l2norm(Tensor[] tensors, float norm_type=2.0, bool per_tensor=False) "
      "-> (Tensor total, Tensor norms)");
  // 1 where anything is infinite or NaN, else 0.
  m.def("multi_tensor_non_finite(Tensor[] tensors) -> Tensor");
  // Both: norms of groups 0 to group_count - 1 (group_count -1: one norm, 0-dim). Tensors of group
  // -1 are in no norm, but still looked at.
  m.def(
      "norm_and_non_finite(Tensor[] tensors, int[] groups, int group_count, float norm_type=2.0) "
      "-> (Tensor norms, Tensor found_inf)");
  // Of grads / grad_scale: what a fused step reads on the GPU.
  m.def(
      "_grad_norm(Tensor[] grads, Tensor? grad_scale, float max_norm, float norm_type) "
      "-> (Tensor norm, Tensor found_inf, Tensor clip_coef)");

  // Scaling, in one dispatch. found_inf and noop_flag are set where an input is infinite or NaN.
  // grads *= inv_scale.
  m.def(
      "multi_tensor_unscale_(Tensor(a!)[] grads, Tensor(b!) found_inf, Tensor? inv_scale_tensor, "
      "float inv_scale) -> ()");
  // outputs = scale * inputs.
  m.def(
      "multi_tensor_scale_(Tensor[] inputs, Tensor(a!)[] outputs, Tensor(b!) noop_flag, "
      "float scale) -> ()");
  // outputs = a * x + b * y; arg_to_check: 0 for x, 1 for y, -1 for both.
  m.def(
      "multi_tensor_axpby_(Tensor[] x, Tensor[] y, Tensor(a!)[] outputs, Tensor(b!) noop_flag, "
      "float a, float b, int arg_to_check) -> ()");
  // tensors *= factor, which is on the device.
  m.def("_multiply_(Tensor(a!)[] tensors, Tensor factor) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(mps_ds, CompositeExplicitAutograd, m) {
  AdamOps<adam_elsewhere>::register_in(m);
}

}  // namespace mps_ds
