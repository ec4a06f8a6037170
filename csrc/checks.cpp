#include "checks.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <utility>

namespace mps_ds {

namespace {

// Byte offsets (from element 0) of all elements; of their halves, where they have four bytes, since
// types of two and four bytes may meet.
std::vector<int64_t> element_offsets(const Tensor& tensor) {
  std::vector<int64_t> offsets{0};
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  for (size_t d = 0; d < sizes.size(); ++d) {
    std::vector<int64_t> next;
    next.reserve(offsets.size() * static_cast<size_t>(sizes[d]));
    for (int64_t offset : offsets)
      for (int64_t i = 0; i < sizes[d]; ++i) next.push_back(offset + i * strides[d]);
    offsets.swap(next);
  }
  for (int64_t& offset : offsets) offset *= static_cast<int64_t>(tensor.element_size());
  const size_t count = offsets.size();
  if (tensor.element_size() == 4)
    for (size_t i = 0; i < count; ++i) offsets.push_back(offsets[i] + 2);
  return offsets;
}

// Whether no two elements of one tensor are the same memory, as far as a glance at the strides
// tells: each dimension, from the smallest stride on, steps over all that the ones before span.
bool surely_apart(const Tensor& tensor) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (size_t d = 0; d < tensor.sizes().size(); ++d)
    if (tensor.sizes()[d] > 1) dims.emplace_back(tensor.strides()[d], tensor.sizes()[d]);
  std::sort(dims.begin(), dims.end());
  int64_t span = 0;
  for (const auto& [stride, size] : dims) {
    if (stride <= span) return false;
    span += stride * (size - 1);
  }
  return true;
}

bool is_dense(const Extent& extent) {
  const int64_t bytes =
      extent.tensor->numel() * static_cast<int64_t>(extent.tensor->element_size());
  return extent.end - extent.begin == bytes && surely_apart(*extent.tensor);
}

[[noreturn]] void fail_shared(const Extent& a, const Extent& b) {
  const Extent& written = a.access == Access::kWrite ? a : b;
  const Extent& other = &written == &a ? b : a;
  MPS_DS_CHECK(false, written.name, " and ", other.name, " share memory, and ", written.name,
               " is written");
  __builtin_unreachable();
}

bool conflict(const Extent& a, const Extent& b) {
  return a.access == Access::kWrite || b.access == Access::kWrite;
}

// Walks the elements: only views that interleave, or overlap, come this far.
void check_elements(const std::vector<Extent>& meeting) {
  std::unordered_map<int64_t, const Extent*> owner;
  for (const Extent& extent : meeting) {
    for (int64_t offset : element_offsets(*extent.tensor)) {
      const auto [found, added] = owner.try_emplace(extent.begin + offset, &extent);
      if (!added && conflict(extent, *found->second)) fail_shared(extent, *found->second);
      if (extent.access == Access::kWrite) found->second = &extent;
    }
  }
}

// Extents sorted by their beginning, each meeting one before it.
void check_run(const std::vector<Extent>& run) {
  const auto reads = [](const Extent& extent) { return extent.access == Access::kRead; };
  if (std::all_of(run.begin(), run.end(), reads)) return;
  if (run.size() == 1 && (run[0].access == Access::kRead || surely_apart(*run[0].tensor))) return;
  if (!std::all_of(run.begin(), run.end(), is_dense)) return check_elements(run);
  const Extent* written = nullptr;  // the one that reaches farthest
  const Extent* any = nullptr;
  for (const Extent& extent : run) {
    const Extent* before = extent.access == Access::kWrite ? any : written;
    if (before && extent.begin < before->end) fail_shared(extent, *before);
    if (!any || extent.end > any->end) any = &extent;
    if (extent.access == Access::kWrite && (!written || extent.end > written->end))
      written = &extent;
  }
}

}  // namespace

std::string device_name(DeviceType device) {
  switch (device) {
    case DeviceType::CPU:
      return "cpu";
    case DeviceType::CUDA:
      return "cuda";
    case DeviceType::MPS:
      return "mps";
    case DeviceType::Meta:
      return "meta";
    case DeviceType::XPU:
      return "xpu";
    default:
      return text("device type ", static_cast<int>(device));
  }
}

std::string shape_text(const Tensor& tensor) {
  std::ostringstream out;
  out << '(';
  const auto sizes = tensor.sizes();
  for (size_t i = 0; i < sizes.size(); ++i) out << (i ? ", " : "") << sizes[i];
  out << (sizes.size() == 1 ? ",)" : ")");
  return out.str();
}

std::ostream& operator<<(std::ostream& out, const ArgumentName& name) {
  if (name.index == kNoIndex) return out << name.list;
  return out << name.list << '[' << name.index << ']';
}

void check_length(const char* list, size_t length, size_t expected, const char* expected_list) {
  MPS_DS_CHECK(length == expected, list, " has ", length, " entries, ", expected_list, " has ",
               expected);
}

std::string type_name(ScalarType type) {
  switch (type) {
    case ScalarType::Float:
      return "torch.float32";
    case ScalarType::Half:
      return "torch.float16";
    case ScalarType::BFloat16:
      return "torch.bfloat16";
    default:
      return torch::headeronly::toString(type);
  }
}

void check_floating(const Tensor& tensor, ArgumentName name, DeviceType device) {
  MPS_DS_CHECK(tensor.layout() == torch::headeronly::Layout::Strided, name,
               " is sparse; accepted are dense tensors");
  const DeviceType got = tensor.device().type();
  MPS_DS_CHECK(got == device, name, " is on ", device_name(got),
               "; all tensors of this call must be on ", device_name(device));
  const ScalarType type = tensor.scalar_type();
  MPS_DS_CHECK(
      type == ScalarType::Float || type == ScalarType::Half || type == ScalarType::BFloat16, name,
      " is ", type_name(type), "; accepted are torch.float32, torch.float16 and torch.bfloat16");
}

void check_number(const Tensor& tensor, const char* name, DeviceType device) {
  const DeviceType got = tensor.device().type();
  MPS_DS_CHECK(got == device, name, " is on ", device_name(got), "; it must be on ",
               device_name(device), ", as the tensors are");
  MPS_DS_CHECK(tensor.scalar_type() == ScalarType::Float, name, " is ",
               type_name(tensor.scalar_type()), "; accepted is torch.float32");
  MPS_DS_CHECK(tensor.numel() == 1, name, " has shape ", shape_text(tensor),
               "; it must have one element");
}

void check_same_shape(const Tensor& tensor, ArgumentName name, const Tensor& param,
                      ArgumentName param_name) {
  const auto sizes = tensor.sizes();
  const auto expected = param.sizes();
  MPS_DS_CHECK(
      sizes.size() == expected.size() && std::equal(sizes.begin(), sizes.end(), expected.begin()),
      name, " has shape ", shape_text(tensor), ", ", param_name, " has ", shape_text(param));
}

Extent extent_of(const Tensor& tensor, ArgumentName name, Access access, const void* base,
                 int64_t byte_offset) {
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  const int64_t itemsize = static_cast<int64_t>(tensor.element_size());
  int64_t span = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    MPS_DS_CHECK(access == Access::kRead || sizes[d] <= 1 || strides[d] != 0, name,
                 " is written, but dimension ", d, " of its shape ", shape_text(tensor),
                 " has stride 0: several elements are one in memory");
    span += (sizes[d] - 1) * strides[d];
  }
  return {base, byte_offset, byte_offset + (span + 1) * itemsize, &tensor, name, access};
}

void check_disjoint(std::vector<Extent> extents) {
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
    return a.base != b.base ? std::less<>()(a.base, b.base) : a.begin < b.begin;
  });
  for (auto begin = extents.begin(); begin != extents.end();) {
    int64_t reach = begin->end;
    auto end = begin + 1;
    for (; end != extents.end() && end->base == begin->base && end->begin < reach; ++end)
      reach = std::max(reach, end->end);
    check_run({begin, end});
    begin = end;
  }
}

}  // namespace mps_ds
