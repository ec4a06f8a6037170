#include "cpu_adam/adam_core.h"

// The baseline of x86-64 has no fma instruction: std::fma is then a library call. The second clone
// serves every machine since 2013, chosen at load time.
#if defined(__x86_64__) && defined(__linux__)
#define MPS_DS_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define MPS_DS_CLONES
#endif

namespace mps_ds {

MPS_DS_CLONES
void adam_run(AdamPointers at, AdamStrides strides, int64_t count, const AdamHyper& hyper) {
  for (int64_t i = 0; i < count; ++i) {
    float& param = at.param[i * strides.param];
    float& exp_avg = at.exp_avg[i * strides.exp_avg];
    float& exp_avg_sq = at.exp_avg_sq[i * strides.exp_avg_sq];
    const AdamElement x =
        adam_element({param, exp_avg, exp_avg_sq}, at.grad[i * strides.grad], hyper);
    param = x.param;
    exp_avg = x.exp_avg;
    exp_avg_sq = x.exp_avg_sq;
  }
}

}  // namespace mps_ds
