// What every op asks of its tensor lists before anything is written, and how it says no.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace mps_ds {

using torch::headeronly::DeviceType;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;
using Tensors = std::vector<Tensor>;

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// Raises RuntimeError with the message alone: no file names of the build in it.
#define MPS_DS_CHECK(condition, ...)                                                    \
  do {                                                                                  \
    if (!(condition)) throw std::runtime_error("mps_ds: " + mps_ds::text(__VA_ARGS__)); \
  } while (0)

std::string device_name(DeviceType device);
std::string shape_text(const Tensor& tensor);

// A tensor's place in an argument, for messages: "exp_avgs[3]".
struct ArgumentName {
  const char* list;
  size_t index;  // kNoIndex: the argument is one tensor
};
constexpr size_t kNoIndex = static_cast<size_t>(-1);
std::ostream& operator<<(std::ostream& out, const ArgumentName& name);

void check_length(const char* list, size_t length, size_t expected, const char* expected_list);

// Dense float32, float16 or bfloat16 on `device`.
void check_floating(const Tensor& tensor, ArgumentName name, DeviceType device);

std::string type_name(ScalarType type);

// One float32 number on `device`, where it is read.
void check_number(const Tensor& tensor, const char* name, DeviceType device);

// The shape of `param`: elements pair up logically, whatever the strides are.
void check_same_shape(const Tensor& tensor, ArgumentName name, const Tensor& param,
                      ArgumentName param_name);

enum class Access { kRead, kWrite };

// The bytes that a tensor can touch, within the storage that `base` identifies.
struct Extent {
  const void* base;
  int64_t begin;
  int64_t end;
  const Tensor* tensor;
  ArgumentName name;
  Access access;
};

// `base`: what tells storages apart; `byte_offset`: where element 0 is in it. Raises for a tensor
// that is written and has several elements in one place (stride 0).
Extent extent_of(const Tensor& tensor, ArgumentName name, Access access, const void* base,
                 int64_t byte_offset);

// No element that is written is written or read through another entry. Views that interleave
// without sharing an element pass.
void check_disjoint(std::vector<Extent> extents);

}  // namespace mps_ds
