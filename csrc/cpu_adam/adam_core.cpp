#include "cpu_adam/adam_core.h"

// The baseline of x86-64 has no fma instruction: std::fma is then a library call. The second clone
// serves every machine since 2013, chosen at load time.
#if defined(__x86_64__) && defined(__linux__)
#define MPS_DS_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define MPS_DS_CLONES
#endif

namespace mps_ds {

// Apart, so that the compiler sees consecutive elements and takes several at a time.
MPS_DS_CLONES
void adam_run_dense(float* __restrict param, const float* __restrict grad,
                    float* __restrict exp_avg, float* __restrict exp_avg_sq, int64_t count,
                    AdamHyper hyper) {
  for (int64_t i = 0; i < count; ++i) {
    const AdamElement x = adam_element({param[i], exp_avg[i], exp_avg_sq[i]}, grad[i], hyper);
    param[i] = x.param;
    exp_avg[i] = x.exp_avg;
    exp_avg_sq[i] = x.exp_avg_sq;
  }
}

MPS_DS_CLONES
void adam_run_strided(AdamPointers at, AdamStrides strides, int64_t count, AdamHyper hyper) {
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

void adam_run(AdamPointers at, AdamStrides strides, int64_t count, const AdamHyper& hyper) {
  if (strides.param == 1 && strides.grad == 1 && strides.exp_avg == 1 && strides.exp_avg_sq == 1)
    adam_run_dense(at.param, at.grad, at.exp_avg, at.exp_avg_sq, count, hyper);
  else
    adam_run_strided(at, strides, count, hyper);
}

}  // namespace mps_ds
