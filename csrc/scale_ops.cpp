#include "scale_ops.h"

#include <algorithm>

namespace mps_ds {

namespace {

bool same_strides(const Tensor& a, const Tensor& b) {
  const auto x = a.strides();
  const auto y = b.strides();
  return std::equal(x.begin(), x.end(), y.begin(), y.end());
}

void check_lists(const ScaleRequest& request, DeviceType device) {
  const size_t count = request.x.size();
  check_length(request.out_name, request.out.size(), count, request.x_name);
  if (request.y) check_length("y", request.y->size(), count, request.x_name);
  for (size_t i = 0; i < count; ++i) {
    const ArgumentName x{request.x_name, i};
    check_floating(request.x[i], x, device);
    const auto check = [&](const Tensor& tensor, ArgumentName name) {
      check_floating(tensor, name, device);
      check_same_shape(tensor, name, request.x[i], x);
    };
    if (request.y) check((*request.y)[i], {"y", i});
    if (!request.in_place()) check(request.out[i], {request.out_name, i});
  }
}

void check_flag(const ScaleRequest& request, DeviceType device) {
  const Tensor& flag = *request.found_inf;
  const ScalarType type = flag.scalar_type();
  const DeviceType got = flag.device().type();
  MPS_DS_CHECK(got == device, request.found_name, " is on ", device_name(got), "; it must be on ",
               device_name(device), ", as the tensors are: it is written there");
  MPS_DS_CHECK(type == ScalarType::Float || type == ScalarType::Int, request.found_name, " is ",
               type_name(type), "; accepted are torch.float32 and torch.int32");
  MPS_DS_CHECK(flag.numel() == 1, request.found_name, " has shape ", shape_text(flag),
               "; it must have one element");
}

void check_memory(const ScaleRequest& request, const Locate& locate) {
  std::vector<Extent> extents;
  const auto add = [&](const Tensor& tensor, ArgumentName name, Access access) {
    const auto [base, offset] = locate(tensor);
    extents.push_back(extent_of(tensor, name, access, base, offset));
  };
  // Where an operand is its own output, each element is read before it is written.
  const auto add_read = [&](const Tensor& tensor, ArgumentName name, const Tensor& out) {
    const bool same = locate(tensor) == locate(out) && same_strides(tensor, out) &&
                      tensor.element_size() == out.element_size();
    if (!same) add(tensor, name, Access::kRead);
  };
  for (size_t i = 0; i < request.x.size(); ++i) {
    const Tensor& out = request.out[i];
    if (out.numel() == 0) continue;
    add(out, {request.out_name, i}, Access::kWrite);
    if (!request.in_place()) add_read(request.x[i], {request.x_name, i}, out);
    if (request.y) add_read((*request.y)[i], {"y", i}, out);
  }
  if (request.found_inf) add(*request.found_inf, {request.found_name, kNoIndex}, Access::kWrite);
  if (request.a_tensor) add(*request.a_tensor, {"the scale", kNoIndex}, Access::kRead);
  check_disjoint(std::move(extents));
}

void run_elsewhere(const ScaleRequest& request) {
  if (request.x.empty() && request.out.empty() && (!request.y || request.y->empty())) return;
  check_length(request.out_name, request.out.size(), request.x.size(), request.x_name);
  const DeviceType device = request.x[0].device().type();
  const bool known = device == DeviceType::MPS || device == DeviceType::CPU;
  check_lists(request, known ? device : DeviceType::MPS);  // names what is wrong
  MPS_DS_CHECK(false, "scaling has no kernel for ", device_name(device),
               " in this build (MPS_DS_BUILD=cpu builds none for mps)");
}

STABLE_TORCH_LIBRARY_IMPL(mps_ds, CompositeExplicitAutograd, m) {
  ScaleOps<run_elsewhere>::register_in(m);
}

}  // namespace

void check_scale(const ScaleRequest& request, DeviceType device, const Locate& locate) {
  check_lists(request, device);
  if (request.found_inf) check_flag(request, device);
  if (request.a_tensor) check_number(*request.a_tensor, "the scale", device);
  check_memory(request, locate);
}

uint32_t found_bits(const ScaleRequest& request) {
  const bool is_float = request.found_inf->scalar_type() == ScalarType::Float;
  return is_float ? MPS_DS_BITS(1.0f) : 1u;
}

}  // namespace mps_ds
