#include <cmath>

#include "cpu_adam/adam_core.h"

namespace mps_ds::cpu_adam {
namespace {

double load(Storage storage, const void* data, int64_t i) {
  switch (storage) {
    case Storage::kFloat16:
      return to_float(static_cast<const Float16*>(data)[i]);
    case Storage::kBFloat16:
      return to_float(static_cast<const BFloat16*>(data)[i]);
    default:
      return static_cast<const float*>(data)[i];
  }
}

void store(Storage storage, void* data, int64_t i, double value) {
  const float x = static_cast<float>(value);
  switch (storage) {
    case Storage::kFloat16:
      static_cast<Float16*>(data)[i] = from_float<Float16>(x);
      return;
    case Storage::kBFloat16:
      static_cast<BFloat16*>(data)[i] = from_float<BFloat16>(x);
      return;
    default:
      static_cast<float*>(data)[i] = x;
  }
}

double exact(FloatPair x) {
  return static_cast<double>(x.high) + static_cast<double>(x.low);
}

}  // namespace

void adam_rollback(const AdamTensors& t, int64_t begin, int64_t end, const AdamHyper& h) {
  for (int64_t i = begin; i < end; ++i) {
    const double exp_avg = load(t.state_type, t.exp_avg, i);
    const double exp_avg_sq = load(t.state_type, t.exp_avg_sq, i);
    const double denominator = std::sqrt(exp_avg_sq) * exact(h.rsqrt_correction2) + exact(h.eps);
    const double kept = load(t.param_type, t.param, i) + exact(h.step_size) * exp_avg / denominator;
    const double param = kept / exact(h.keep);

    double grad = exact(h.grad_factor) * load(t.grad_type, t.grad, i);
    if (h.l2.high != 0.0f) grad += exact(h.l2) * param;
    const double mean = (exp_avg - exact(h.one_minus_beta1) * grad) / exact(h.beta1);
    const double mean_sq = (exp_avg_sq - exact(h.one_minus_beta2) * grad * grad) / exact(h.beta2);

    store(t.param_type, t.param, i, param);
    store(t.state_type, t.exp_avg, i, mean);
    // Roundings may have left less than nothing. A NaN stays one.
    store(t.state_type, t.exp_avg_sq, i, mean_sq < 0 ? 0.0 : mean_sq);
  }
}

}  // namespace mps_ds::cpu_adam
