// The step over dense tensors, for any vector of floats. A backend's file includes one vector_*.h,
// then this.
//
// A vector type V has kWidth floats; load() and store() for float, Float16 and BFloat16, unaligned;
// V(float) with all floats alike; kBlock, how many a turn of the loop takes; kPrefetch, whether
// fetching ahead pays; and, as functions, the operators + - * / and unary -, and the
// value_*() and finite_or_zero() of mps/kernels/float_pair.h, which do for each float what those do
// for one.
//
// All of it is in unnamed namespaces: each backend compiles it for another instruction set, and a
// linker that merged two copies would hand one processor's instructions to another.
#pragma once

#include <cstring>
#include <type_traits>

#include "cpu_adam/backend.h"
#include "mps/kernels/adam_math.h"
#include "mps/kernels/adam_plain.h"

namespace mps_ds::cpu_adam {
namespace {

template <class P, class G, class S>
struct Streams {
  P* param;
  const G* grad;
  S* exp_avg;
  S* exp_avg_sq;
  S* max_exp_avg_sq;
  Float16* copy_float16;
  BFloat16* copy_bfloat16;
};

// The common steps are compiled apart, with no questions asked for each vector.
enum class Kind { kAny, kAdamW, kAdam, kPairs };  // kAdam: also AdamW without weight decay

constexpr AdamParts kAdamWParts{false, false, false, true, false};
constexpr AdamParts kAdamParts{false, false, false, false, false};

template <class P, class G, class S>
Kind kind_of(const Streams<P, G, S>& at, const AdamHyper& hyper) {
  const AdamParts parts = adam_parts(hyper, at.max_exp_avg_sq != nullptr);
  if (at.copy_float16 || at.copy_bfloat16) return Kind::kAny;
  if (parts.factor || parts.clip || parts.l2 || parts.amsgrad) return Kind::kAny;
  return parts.decay ? Kind::kAdamW : Kind::kAdam;
}

template <class V, Kind kKind, class P, class G, class S>
inline void step_vector(const Streams<P, G, S>& at, int64_t i, const AdamHyper& hyper) {
  AdamValues<V> x{};
  x.param = V::load(at.param + i);
  x.exp_avg = V::load(at.exp_avg + i);
  x.exp_avg_sq = V::load(at.exp_avg_sq + i);
  const V grad = V::load(at.grad + i);
  constexpr bool kExtras = kKind == Kind::kAny || kKind == Kind::kPairs;
  const bool amsgrad = kExtras && at.max_exp_avg_sq != nullptr;
  if (amsgrad) x.max_exp_avg_sq = V::load(at.max_exp_avg_sq + i);
  if constexpr (kKind == Kind::kPairs) {
    x = adam_element<V>(x, grad, hyper, amsgrad);
  } else if constexpr (kKind == Kind::kAny) {
    x = adam_plain<V>(x, grad, hyper, amsgrad);
  } else {
    x = adam_plain<V>(x, grad, hyper, kKind == Kind::kAdamW ? kAdamWParts : kAdamParts);
  }
  x.param.store(at.param + i);
  x.exp_avg.store(at.exp_avg + i);
  x.exp_avg_sq.store(at.exp_avg_sq + i);
  if (amsgrad) x.max_exp_avg_sq.store(at.max_exp_avg_sq + i);
  if (kExtras && at.copy_float16) x.param.store(at.copy_float16 + i);
  if (kExtras && at.copy_bfloat16) x.param.store(at.copy_bfloat16 + i);
}

// A whole vector in buffers of its own for what is left of the end: nothing beyond it is touched.
template <class V, Kind kKind, class P, class G, class S>
void step_rest(const Streams<P, G, S>& at, int64_t i, int64_t count, const AdamHyper& hyper) {
  P param[V::kWidth] = {};
  G grad[V::kWidth] = {};
  S exp_avg[V::kWidth] = {};
  S exp_avg_sq[V::kWidth] = {};
  S max_exp_avg_sq[V::kWidth] = {};
  Float16 copy_float16[V::kWidth];
  BFloat16 copy_bfloat16[V::kWidth];
  const size_t n = static_cast<size_t>(count);
  std::memcpy(param, at.param + i, n * sizeof(P));
  std::memcpy(grad, at.grad + i, n * sizeof(G));
  std::memcpy(exp_avg, at.exp_avg + i, n * sizeof(S));
  std::memcpy(exp_avg_sq, at.exp_avg_sq + i, n * sizeof(S));
  if (at.max_exp_avg_sq) std::memcpy(max_exp_avg_sq, at.max_exp_avg_sq + i, n * sizeof(S));
  const Streams<P, G, S> rest{param,
                              grad,
                              exp_avg,
                              exp_avg_sq,
                              at.max_exp_avg_sq ? max_exp_avg_sq : nullptr,
                              at.copy_float16 ? copy_float16 : nullptr,
                              at.copy_bfloat16 ? copy_bfloat16 : nullptr};
  step_vector<V, kKind>(rest, 0, hyper);
  std::memcpy(at.param + i, param, n * sizeof(P));
  std::memcpy(at.exp_avg + i, exp_avg, n * sizeof(S));
  std::memcpy(at.exp_avg_sq + i, exp_avg_sq, n * sizeof(S));
  if (at.max_exp_avg_sq) std::memcpy(at.max_exp_avg_sq + i, max_exp_avg_sq, n * sizeof(S));
  if (at.copy_float16) std::memcpy(at.copy_float16 + i, copy_float16, n * sizeof(Float16));
  if (at.copy_bfloat16) std::memcpy(at.copy_bfloat16 + i, copy_bfloat16, n * sizeof(BFloat16));
}

constexpr int64_t kAhead = 512;  // elements; the hardware's own prefetching stops at page borders

// The lines of elements [i, i + count) of a stream. They may lie beyond its end: that is no
// access.
template <class T>
inline void prefetch(const T* stream, int64_t i, uintptr_t count) {
  constexpr uintptr_t kLine = 64;
  const uintptr_t at = reinterpret_cast<uintptr_t>(stream) + static_cast<uintptr_t>(i) * sizeof(T);
  for (uintptr_t line = 0; line < count * sizeof(T); line += kLine)
    __builtin_prefetch(reinterpret_cast<const void*>(at + line));
}

// Copies of the arguments: what is stored could otherwise be one of them.
template <class V, Kind kKind, class P, class G, class S>
void step_run(const Streams<P, G, S> at, int64_t count, const AdamHyper hyper) {
  int64_t i = 0;
  for (; i + V::kBlock <= count; i += V::kBlock) {
    if constexpr (V::kPrefetch) {
      prefetch(at.param, i + kAhead, V::kBlock);
      prefetch(at.grad, i + kAhead, V::kBlock);
      prefetch(at.exp_avg, i + kAhead, V::kBlock);
      prefetch(at.exp_avg_sq, i + kAhead, V::kBlock);
    }
    for (int64_t k = 0; k < V::kBlock; k += V::kWidth) step_vector<V, kKind>(at, i + k, hyper);
  }
  for (; i + V::kWidth <= count; i += V::kWidth) step_vector<V, kKind>(at, i, hyper);
  if (i < count)
    step_rest<V, kKind == Kind::kPairs ? Kind::kPairs : Kind::kAny>(at, i, count - i, hyper);
}

template <class V, bool kPairs, class P, class G, class S>
void step_typed(const AdamTensors& tensors, int64_t begin, int64_t end, const AdamHyper& hyper) {
  Streams<P, G, S> at{};
  at.param = static_cast<P*>(tensors.param) + begin;
  at.grad = static_cast<const G*>(tensors.grad) + begin;
  at.exp_avg = static_cast<S*>(tensors.exp_avg) + begin;
  at.exp_avg_sq = static_cast<S*>(tensors.exp_avg_sq) + begin;
  if (tensors.max_exp_avg_sq) at.max_exp_avg_sq = static_cast<S*>(tensors.max_exp_avg_sq) + begin;
  if (tensors.param_copy && tensors.copy_type == Storage::kFloat16)
    at.copy_float16 = static_cast<Float16*>(tensors.param_copy) + begin;
  if (tensors.param_copy && tensors.copy_type == Storage::kBFloat16)
    at.copy_bfloat16 = static_cast<BFloat16*>(tensors.param_copy) + begin;
  const int64_t count = end - begin;
  if constexpr (kPairs) {
    step_run<V, Kind::kPairs>(at, count, hyper);
  } else {
    const Kind kind = kind_of(at, hyper);
    if (kind == Kind::kAdamW) return step_run<V, Kind::kAdamW>(at, count, hyper);
    if (kind == Kind::kAdam) return step_run<V, Kind::kAdam>(at, count, hyper);
    step_run<V, Kind::kAny>(at, count, hyper);
  }
}

template <class T>
struct Type {
  using type = T;
};

template <class Function>
void with_type(Storage storage, const Function& function) {
  switch (storage) {
    case Storage::kFloat32:
      return function(Type<float>{});
    case Storage::kFloat16:
      return function(Type<Float16>{});
    case Storage::kBFloat16:
      return function(Type<BFloat16>{});
  }
}

template <class V>
void step_dense(const AdamTensors& tensors, int64_t begin, int64_t end, const AdamHyper& hyper,
                Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::kPairs)
    return with_type(tensors.grad_type, [&](auto grad) {
      using G = typename decltype(grad)::type;
      step_typed<V, true, float, G, float>(tensors, begin, end, hyper);
    });
  with_type(tensors.param_type, [&](auto param) {
    with_type(tensors.grad_type, [&](auto grad) {
      using P = typename decltype(param)::type;
      using G = typename decltype(grad)::type;
      if (tensors.state_type == Storage::kFloat32)
        return step_typed<V, false, P, G, float>(tensors, begin, end, hyper);
      // adam_random.h holds bfloat16 params in float32 until they are rounded.
      if constexpr (std::is_same_v<P, float>)
        return step_typed<V, false, P, G, BFloat16>(tensors, begin, end, hyper);
      step_typed<V, false, P, G, P>(tensors, begin, end, hyper);
    });
  });
}

}  // namespace
}  // namespace mps_ds::cpu_adam
