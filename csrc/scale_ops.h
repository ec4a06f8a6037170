// The scaling operators in terms of one function that runs ScaleRequests: each device has one.
#pragma once

#include <torch/csrc/stable/library.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "checks.h"
#include "mps/kernels/scale_tables.h"

namespace mps_ds {

// out = a * x, or a * x + b * y where there is a y.
struct ScaleRequest {
  const Tensors& x;
  const Tensors* y;
  const Tensors& out;
  const char* x_name;  // of the arguments, for messages
  const char* out_name;
  std::optional<Tensor> a_tensor = {};  // one float32 on the device, instead of `a`
  double a = 1.0;
  double b = 0.0;
  bool checks_x = false;
  bool checks_y = false;
  std::optional<Tensor> found_inf = {};  // is set where anything that is checked is not finite
  const char* found_name = "found_inf";

  bool in_place() const { return &x == &out; }
};

// How a device tells storages apart: what identifies a tensor's, and where element 0 is in it.
using Locate = std::function<std::pair<const void*, int64_t>(const Tensor&)>;

// Types, devices, shapes and lengths; that no element that is written is written or read through
// another operand. An operand may be the output of its own row.
void check_scale(const ScaleRequest& request, DeviceType device, const Locate& locate);

// 1 as the flag's type has it.
uint32_t found_bits(const ScaleRequest& request);

template <void (*run)(const ScaleRequest&)>
struct ScaleOps {
  static void unscale(const Tensors& grads, const Tensor& found_inf,
                      const std::optional<Tensor>& inv_scale_tensor, double inv_scale) {
    ScaleRequest request{grads, nullptr, grads, "grads", "grads", inv_scale_tensor, inv_scale};
    request.checks_x = true;
    request.found_inf = found_inf;
    run(request);
  }

  static void scale(const Tensors& inputs, const Tensors& outputs, const Tensor& noop_flag,
                    double scale) {
    ScaleRequest request{inputs, nullptr, outputs, "inputs", "outputs", std::nullopt, scale};
    request.checks_x = true;
    request.found_inf = noop_flag;
    request.found_name = "noop_flag";
    run(request);
  }

  // `arg_to_check`: 0 for x, 1 for y, -1 for both.
  static void axpby(const Tensors& x, const Tensors& y, const Tensors& outputs,
                    const Tensor& noop_flag, double a, double b, int64_t arg_to_check) {
    MPS_DS_CHECK(arg_to_check >= -1 && arg_to_check <= 1, "arg_to_check is ", arg_to_check,
                 "; accepted are -1 (both), 0 (x) and 1 (y)");
    ScaleRequest request{x, &y, outputs, "x", "outputs", std::nullopt, a, b};
    request.checks_x = arg_to_check != 1;
    request.checks_y = arg_to_check != 0;
    request.found_inf = noop_flag;
    request.found_name = "noop_flag";
    run(request);
  }

  static void multiply(const Tensors& tensors, const Tensor& factor) {
    run({tensors, nullptr, tensors, "tensors", "tensors", factor});
  }

  template <class Library>
  static void register_in(Library& m) {
    m.impl("multi_tensor_unscale_", TORCH_BOX(&unscale));
    m.impl("multi_tensor_scale_", TORCH_BOX(&scale));
    m.impl("multi_tensor_axpby_", TORCH_BOX(&axpby));
    m.impl("_multiply_", TORCH_BOX(&multiply));
  }
};

}  // namespace mps_ds
