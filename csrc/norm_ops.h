// The norm operators in terms of one function that computes NormRequests: each device has one.
#pragma once

#include <torch/csrc/stable/library.h>

#include <numeric>
#include <tuple>

#include "norm_work.h"

namespace mps_ds {

template <NormResults (*compute)(const NormRequest&)>
struct NormOps {
  static std::tuple<Tensor, Tensor> l2norm(const Tensors& tensors, double norm_type,
                                           bool per_tensor) {
    NormRequest request{"tensors", tensors, norm_type};
    request.entry_of.assign(tensors.size(), 0);
    request.wants_total = request.wants_entries = true;
    if (per_tensor) {
      std::iota(request.entry_of.begin(), request.entry_of.end(), 0);
      request.entries = static_cast<int64_t>(tensors.size());
    }
    NormResults results = compute(request);
    return {*results.total, *results.entries};
  }

  static Tensor non_finite(const Tensors& tensors) {
    // The norm that is cheapest to compute and keeps what is infinite or NaN.
    NormRequest request{"tensors", tensors, INFINITY};
    request.entry_of.assign(tensors.size(), 0);
    request.wants_found_inf = true;
    return *compute(request).found_inf;
  }

  // `groups`: of each tensor, or empty for one norm of all, 0-dim; -1 leaves a tensor out.
  static std::tuple<Tensor, Tensor> norm_and_non_finite(const Tensors& tensors,
                                                        const std::vector<int64_t>& groups,
                                                        int64_t group_count, double norm_type) {
    NormRequest request{"tensors", tensors, norm_type};
    check_length("groups", groups.size(), tensors.size(), "tensors");
    const bool one = group_count < 0;
    for (size_t i = 0; i < groups.size(); ++i)
      MPS_DS_CHECK(groups[i] >= -1 && groups[i] < (one ? 1 : group_count), "groups[", i, "] is ",
                   groups[i], "; accepted are -1 (in no norm) to ", (one ? 1 : group_count) - 1);
    request.entry_of = groups;
    request.entries = one ? 0 : group_count;
    request.wants_entries = !one;
    request.wants_total = one;
    request.wants_found_inf = true;
    NormResults results = compute(request);
    return {one ? *results.total : *results.entries, *results.found_inf};
  }

  static std::tuple<Tensor, Tensor, Tensor> grad_norm(const Tensors& grads,
                                                      const std::optional<Tensor>& grad_scale,
                                                      double max_norm, double norm_type) {
    MPS_DS_CHECK(!grads.empty() || !grad_scale, "grads is empty, and grad_scale is given");
    NormRequest request{"grads", grads, norm_type};
    request.entry_of.assign(grads.size(), 0);
    request.divisor = grad_scale;
    request.max_norm = max_norm;
    request.wants_total = request.wants_found_inf = request.wants_clip_coef = true;
    NormResults results = compute(request);
    return {*results.total, *results.found_inf, *results.clip_coef};
  }

  template <class Library>
  static void register_in(Library& m) {
    m.impl("multi_tensor_l2norm", TORCH_BOX(&l2norm));
    m.impl("multi_tensor_non_finite", TORCH_BOX(&non_finite));
    m.impl("norm_and_non_finite", TORCH_BOX(&norm_and_non_finite));
    m.impl("_grad_norm", TORCH_BOX(&grad_norm));
  }
};

}  // namespace mps_ds
