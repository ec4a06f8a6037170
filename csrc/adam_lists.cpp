#include "adam_lists.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace mps_ds {

namespace {

void check_optional_length(const char* list, const Tensors& tensors, size_t count) {
  if (!tensors.empty()) check_length(list, tensors.size(), count, "params");
}

bool is_16_bit(ScalarType type) {
  return type == ScalarType::Half || type == ScalarType::BFloat16;
}

void check_state_type(const Tensor& state, ArgumentName name, const Tensor& param,
                      const Tensor& exp_avg) {
  const ScalarType type = state.scalar_type();
  const ScalarType param_type = param.scalar_type();
  MPS_DS_CHECK(type == ScalarType::Float || type == param_type, name, " is ", type_name(type),
               ", its param ", type_name(param_type),
               "; a state must be torch.float32 or of the param's dtype");
  MPS_DS_CHECK(type == exp_avg.scalar_type(), name, " is ", type_name(type), ", exp_avgs[",
               name.index, "] ", type_name(exp_avg.scalar_type()),
               "; the states of a param must have one dtype");
}

const Tensor* max_exp_avg_sq(const AdamLists& lists, size_t i) {
  if (lists.max_exp_avg_sqs.empty()) return nullptr;
  if (lists.amsgrad_rows.empty()) return &lists.max_exp_avg_sqs[i];
  const auto& rows = lists.amsgrad_rows;
  const auto row = static_cast<int64_t>(i);
  const auto found = std::lower_bound(rows.begin(), rows.end(), row);
  if (found == rows.end() || *found != row) return nullptr;
  return &lists.max_exp_avg_sqs[static_cast<size_t>(found - rows.begin())];
}

void check_amsgrad_rows(const AdamLists& lists) {
  const auto& rows = lists.amsgrad_rows;
  if (rows.empty())
    return check_optional_length("max_exp_avg_sqs", lists.max_exp_avg_sqs, lists.size());
  check_length("amsgrad_rows", rows.size(), lists.max_exp_avg_sqs.size(), "max_exp_avg_sqs");
  for (size_t k = 0; k < rows.size(); ++k)
    MPS_DS_CHECK(static_cast<size_t>(rows[k]) < lists.size() && (k == 0 || rows[k - 1] < rows[k]),
                 "amsgrad_rows[", k, "] is ", rows[k], "; they must ascend and be below ",
                 lists.size());
}

void check_row(const AdamLists& lists, size_t i, DeviceType device) {
  const Tensor& param = lists.params[i];
  for (const AdamOperand& operand : adam_operands(lists, i)) {
    if (!operand.tensor) continue;
    const ArgumentName name{operand.list, i};
    check_floating(*operand.tensor, name, device);
    check_same_shape(*operand.tensor, name, param, {"params", i});
  }
  check_state_type(lists.exp_avgs[i], {"exp_avgs", i}, param, lists.exp_avgs[i]);
  check_state_type(lists.exp_avg_sqs[i], {"exp_avg_sqs", i}, param, lists.exp_avgs[i]);
  if (const Tensor* tensor = max_exp_avg_sq(lists, i))
    check_state_type(*tensor, {"max_exp_avg_sqs", i}, param, lists.exp_avgs[i]);
  if (lists.copies.empty()) return;
  MPS_DS_CHECK(param.scalar_type() == ScalarType::Float && is_16_bit(lists.copies[i].scalar_type()),
               "copies[", i, "] is ", type_name(lists.copies[i].scalar_type()), " and params[", i,
               "] ", type_name(param.scalar_type()),
               "; a copy is torch.float16 or torch.bfloat16, of a torch.float32 param");
}

void check_one_element(const Tensor& tensor, const std::string& name, DeviceType device,
                       bool may_be_int) {
  const ScalarType type = tensor.scalar_type();
  MPS_DS_CHECK(type == ScalarType::Float || (may_be_int && type == ScalarType::Int), name, " is ",
               type_name(type), "; accepted is torch.float32", may_be_int ? " or torch.int32" : "");
  MPS_DS_CHECK(tensor.numel() == 1, name, " has shape ", shape_text(tensor),
               "; it must have one element");
  const DeviceType got = tensor.device().type();
  MPS_DS_CHECK(got == device || got == DeviceType::CPU, name, " is on ", device_name(got),
               "; it must be on ", device_name(device), device == DeviceType::CPU ? "" : " or cpu");
}

bool is_on_cpu(const Tensor& tensor) {
  return tensor.device().type() == DeviceType::CPU;
}

double number_of(const Tensor& tensor) {
  if (tensor.scalar_type() == ScalarType::Int) return *tensor.const_data_ptr<int32_t>();
  return static_cast<double>(*tensor.const_data_ptr<float>());
}

}  // namespace

std::array<AdamOperand, kAdamOperands> adam_operands(const AdamLists& lists, size_t i) {
  const auto entry = [&](const Tensors& list) { return list.empty() ? nullptr : &list[i]; };
  return {{{"params", &lists.params[i]},
           {"exp_avgs", &lists.exp_avgs[i]},
           {"exp_avg_sqs", &lists.exp_avg_sqs[i]},
           {"max_exp_avg_sqs", max_exp_avg_sq(lists, i)},
           {"copies", entry(lists.copies)}}};
}

void check_adam_lists(const AdamLists& lists, DeviceType device) {
  const size_t count = lists.size();
  check_length("exp_avgs", lists.exp_avgs.size(), count, "params");
  check_length("exp_avg_sqs", lists.exp_avg_sqs.size(), count, "params");
  check_amsgrad_rows(lists);
  check_optional_length("copies", lists.copies, count);
  check_optional_length("step_tensors", lists.step_tensors, count);
  for (size_t i = 0; i < count; ++i) {
    check_row(lists, i, device);
    if (lists.step_tensors.empty()) continue;
    const std::string name = text(ArgumentName{"step_tensors", i});
    check_one_element(lists.step_tensors[i], name, device, false);
    MPS_DS_CHECK(lists.step_tensors[i].device().type() == device, name, " is on cpu, its param on ",
                 device_name(device));
  }
}

void check_adam_grad(const Tensor& grad, size_t k, const AdamLists& lists, size_t i) {
  const Tensor& param = lists.params[i];
  check_floating(grad, {"grads", k}, param.device().type());
  check_same_shape(grad, {"grads", k}, param, {"params", i});
}

void check_adam_scalars(const AdamScalars& scalars, size_t groups, DeviceType device) {
  if (!scalars.lrs.empty()) {
    MPS_DS_CHECK(scalars.lrs.size() == groups, "lr_tensors has ", scalars.lrs.size(),
                 " entries, there are ", groups, " param groups");
    for (size_t i = 0; i < groups; ++i) {
      const ArgumentName name{"lr_tensors", i};
      check_one_element(scalars.lrs[i], text(name), device, false);
      MPS_DS_CHECK(is_on_cpu(scalars.lrs[i]) == is_on_cpu(scalars.lrs[0]), name, " is on ",
                   device_name(scalars.lrs[i].device().type()), ", lr_tensors[0] on ",
                   device_name(scalars.lrs[0].device().type()), "; all must be on one device");
    }
  }
  const auto check = [&](const OptionalTensor& tensor, const char* name, bool may_be_int) {
    if (tensor) check_one_element(*tensor, name, device, may_be_int);
  };
  check(scalars.grad_scale, "grad_scale", false);
  check(scalars.found_inf, "found_inf", true);
  check(scalars.clip_coef, "clip_coef", false);
  check(scalars.clip_value, "clip_value", false);
}

std::vector<std::pair<const Tensor*, ArgumentName>> named_scalars(const AdamScalars& scalars) {
  std::vector<std::pair<const Tensor*, ArgumentName>> named;
  for (size_t i = 0; i < scalars.lrs.size(); ++i)
    named.push_back({&scalars.lrs[i], {"lr_tensors", i}});
  const auto add = [&](const OptionalTensor& tensor, const char* name) {
    if (tensor) named.push_back({&*tensor, {name, kNoIndex}});
  };
  add(scalars.grad_scale, "grad_scale");
  add(scalars.found_inf, "found_inf");
  add(scalars.clip_coef, "clip_coef");
  add(scalars.clip_value, "clip_value");
  return named;
}

AdamFactors take_cpu_scalars(AdamScalars& scalars, std::vector<AdamOptions>& groups) {
  if (!scalars.lrs.empty() && std::all_of(scalars.lrs.begin(), scalars.lrs.end(), is_on_cpu)) {
    for (size_t i = 0; i < groups.size(); ++i) groups[i].lr = number_of(scalars.lrs[i]);
    scalars.lrs.clear();
  }
  const auto take = [](OptionalTensor& tensor) -> std::optional<double> {
    if (!tensor || !is_on_cpu(*tensor)) return {};
    const double number = number_of(*tensor);
    tensor.reset();
    return number;
  };
  if (const auto value = take(scalars.clip_value))
    for (AdamOptions& options : groups) options.clip_value = *value;
  AdamFactors factors;
  factors.grad_scale = static_cast<float>(take(scalars.grad_scale).value_or(1));
  factors.clip_coef = static_cast<float>(take(scalars.clip_coef).value_or(1));
  factors.skip = take(scalars.found_inf).value_or(0) != 0;
  return factors;
}

AdamInput adam_input(const AdamLists& lists, const Tensors& grads,
                     const std::vector<int64_t>& groups, const std::vector<int64_t>& steps,
                     const std::vector<double>& options, AdamScalars scalars,
                     std::optional<int64_t> seed) {
  const size_t count = lists.size();
  check_length("grads", grads.size(), count, "params");
  AdamInput input{
      grads,           iota(count), groups, {}, unpack_adam_options(options), std::move(scalars),
      std::move(seed), false};
  if (groups.empty()) input.group_of.assign(count, 0);
  check_length("groups", input.group_of.size(), count, "params");
  for (size_t i = 0; i < count; ++i)
    MPS_DS_CHECK(static_cast<size_t>(input.group_of[i]) < input.groups.size(), "groups[", i,
                 "] is ", input.group_of[i], "; there are options of ", input.groups.size(),
                 " groups");
  // A scalar elsewhere may have chosen the backend: name it, not the params.
  if (count > 0)
    check_adam_scalars(input.scalars, input.groups.size(), lists.params[0].device().type());
  if (!lists.step_tensors.empty()) {
    MPS_DS_CHECK(steps.empty(), "steps and step_tensors are both given; accepted is one of them");
    return input;
  }
  input.steps = steps;
  if (steps.size() == 1) input.steps.assign(count, steps[0]);
  check_length("steps", input.steps.size(), count, "params");
  return input;
}

std::vector<int64_t> iota(size_t count) {
  std::vector<int64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace mps_ds
