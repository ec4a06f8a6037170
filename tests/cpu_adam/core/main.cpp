// Tests of the CPU Adam's core, without torch: for this machine, for sanitizers, for qemu.
#include "support.h"

FloatPair pair(double x) {
  const float high = static_cast<float>(x);
  return {high, static_cast<float>(x - static_cast<double>(high))};
}

AdamHyper hyper_of(const Options& o) {
  const double decay = o.adam_w ? o.lr * o.weight_decay : 0;
  AdamHyper h{};
  h.grad_factor = pair((o.maximize ? -1.0 : 1.0) / o.grad_scale);
  h.l2 = pair(o.adam_w ? 0.0 : o.weight_decay);
  h.keep = pair(1 - decay);
  h.beta1 = pair(o.beta1);
  h.one_minus_beta1 = pair(1 - o.beta1);
  h.beta2 = pair(o.beta2);
  h.one_minus_beta2 = pair(1 - o.beta2);
  h.rsqrt_correction2 = pair(1 / std::sqrt(o.correction2));
  h.step_size = pair(o.lr / o.correction1);
  h.eps = pair(o.eps);
  h.decay = static_cast<float>(decay);
  h.clip_value = static_cast<float>(o.clip_value);
  h.flags = std::isfinite(o.clip_value) ? ADAM_CLIP_VALUE : 0;
  return h;
}

int main() {
  std::string names;
  for (const std::string& backend : adam_backends()) names += " " + backend;
  test_steps();
  test_conversions();
  test_layouts();
  std::printf("backends:%s\nchecks: %lld\ndigest: %016llx\n", names.c_str(),
              static_cast<long long>(checks), static_cast<unsigned long long>(digest.value()));
  if (failures) std::fprintf(stderr, "%lld checks failed\n", static_cast<long long>(failures));
  return failures ? 1 : 0;
}
