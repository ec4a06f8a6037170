#include "reference.h"

#include <algorithm>

namespace {

constexpr double kU = 0x1p-24;      // the largest relative error of a rounding to float32
constexpr double kTiny = 0x1p-149;  // and its largest absolute one, where that is more

// One rounding of a result.
Bounded rounded(double value, double error) {
  return {value, error + kU * (std::fabs(value) + error) + kTiny};
}

// c * x with one rounding, or none within an fma; the constant was rounded to float32 itself.
double term_error(double c, const Bounded& x) {
  return std::fabs(c) * x.error + kU * std::fabs(c) * (std::fabs(x.value) + x.error);
}

Bounded product(double c, const Bounded& x) {
  return rounded(c * x.value, term_error(c, x));
}

// fma(c, x, y)
Bounded fused(double c, const Bounded& x, const Bounded& y) {
  return rounded(c * x.value + y.value, term_error(c, x) + y.error);
}

Bounded times(const Bounded& x, const Bounded& y) {
  return rounded(x.value * y.value,
                 std::fabs(x.value) * y.error + std::fabs(y.value) * x.error + x.error * y.error);
}

Bounded root(const Bounded& x) {
  const double value = std::sqrt(x.value);
  const double low = std::sqrt(std::max(0.0, x.value - x.error));
  const double high = std::sqrt(x.value + x.error);
  return rounded(value, std::max(high - value, value - low));
}

Bounded quotient(const Bounded& x, const Bounded& y) {
  const double value = x.value / y.value;
  const double least = y.value - y.error;
  return rounded(value, (x.error + std::fabs(value) * y.error) / least);
}

double ulp(double x, Storage storage) {
  constexpr int kDigits[] = {24, 11, 8};
  constexpr int kSmallest[] = {-149, -24, -133};  // exponents of the smallest subnormals
  if (x == 0) return std::ldexp(1.0, kSmallest[static_cast<int>(storage)]);
  const int exponent = std::ilogb(x) + 1 - kDigits[static_cast<int>(storage)];
  return std::ldexp(1.0, std::max(exponent, kSmallest[static_cast<int>(storage)]));
}

}  // namespace

BoundedStep reference_step(const Element& before, const Options& o) {
  const Bounded param{before.param, 0};
  const double factor = (o.maximize ? -1.0 : 1.0) / o.grad_scale;
  Bounded grad{before.grad, 0};
  if (factor != 1) grad = product(factor, grad);
  // Moves both the value and its error inwards, never apart.
  grad.value = std::clamp(grad.value, -o.clip_value, o.clip_value);
  if (std::isfinite(o.clip_value)) grad.error += kU * o.clip_value;
  if (!o.adam_w && o.weight_decay != 0) grad = fused(o.weight_decay, param, grad);

  BoundedStep step;
  step.exp_avg = fused(o.beta1, {before.exp_avg, 0}, product(1 - o.beta1, grad));
  const Bounded square = times(product(1 - o.beta2, grad), grad);
  step.exp_avg_sq = fused(o.beta2, {before.exp_avg_sq, 0}, square);
  Bounded largest = step.exp_avg_sq;
  if (o.amsgrad && before.max_exp_avg_sq > largest.value)
    largest.value = before.max_exp_avg_sq;  // the other may come out as the larger: keep its error
  step.max_exp_avg_sq = largest;

  const double scale = 1 / std::sqrt(o.correction2);
  const Bounded denominator = fused(scale, root(largest), {o.eps, kU * o.eps});
  const double decay = o.adam_w ? o.lr * o.weight_decay : 0;
  const Bounded kept = decay != 0 ? fused(-decay, param, param) : param;
  step.param = fused(-o.lr / o.correction1, quotient(step.exp_avg, denominator), kept);
  return step;
}

bool is_rounded(double got, const Bounded& want, Storage storage) {
  const double reach = std::fabs(want.value) + want.error;
  const double rounding = storage == Storage::kFloat32 ? 0 : 0.5 * ulp(reach, storage);
  return std::fabs(got - want.value) <= want.error + rounding;
}
