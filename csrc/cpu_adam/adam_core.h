// Adam and AdamW on host memory: pointers and numbers, no torch. One algorithm, written for vectors
// (adam_vector.h), on NEON, AVX2, AVX-512 or single floats; all agree bit for bit, and with the
// Metal kernels of the same arithmetic on a device that keeps subnormals. (Which NaN comes out of
// an element that is NaN is not defined.)
//
// Nothing is read or written outside the elements that are asked for; no alignment is assumed
// beyond that of an element.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cpu_adam/storage.h"
#include "mps/kernels/adam_types.h"

namespace mps_ds::cpu_adam {

enum class Arithmetic : uint8_t {
  kPlain,  // mps/kernels/adam_plain.h, any types
  kPairs,  // mps/kernels/adam_math.h; params and states are float32
};

// One param and what belongs to it: addresses of element 0. Values are computed in float32 and
// rounded once to the type of what they are stored in. None of these may overlap.
struct AdamTensors {
  void* param;
  const void* grad;
  void* exp_avg;
  void* exp_avg_sq;
  void* max_exp_avg_sq = nullptr;  // amsgrad, if not null
  void* param_copy = nullptr;      // gets the new param too, if not null

  Storage param_type = Storage::kFloat32;
  Storage grad_type = Storage::kFloat32;
  Storage state_type = Storage::kFloat32;  // that, or the param's type
  Storage copy_type = Storage::kBFloat16;  // 16 bits; rounded from float32, not from the param
};

// The order of strides in AdamDim.
enum AdamStream { kParam, kGrad, kExpAvg, kExpAvgSq, kMaxExpAvgSq, kParamCopy, kAdamStreams };

// A dimension of tensors of one shape; strides in elements, those of absent tensors ignored.
struct AdamDim {
  int64_t size;
  std::array<int64_t, kAdamStreams> strides;
};

// Elements [begin, end) in the order of `dims`, innermost first; without dims the tensors are dense
// and alike. What is not at hand (skipping a step for found_inf, checks) is the caller's business.
void adam_step(const AdamTensors& tensors, const std::vector<AdamDim>& dims, int64_t begin,
               int64_t end, const AdamHyper& hyper, Arithmetic arithmetic);

// Undoes a plain step up to rounding: from what it left and the gradients it was given. In double.
// beta1 and beta2 are not 0, decay not 1. Dense tensors; no amsgrad, no copy.
void adam_rollback(const AdamTensors& tensors, int64_t begin, int64_t end, const AdamHyper& hyper);

// The backends that this processor can run, best first: of "avx512", "avx2", "neon", "scalar".
std::vector<std::string> adam_backends();

// The one that adam_step uses: the best, or what the environment variable MPS_DS_CPU_ADAM names
// (read once).
std::string adam_backend();

// For tests: false if this processor cannot run it. Not while another thread is in adam_step.
bool use_adam_backend(const std::string& name);

}  // namespace mps_ds::cpu_adam
