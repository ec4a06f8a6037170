"""Kernels that were written for Metal by others: PyTorch's c10/metal headers."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
INCLUDE = Path(torch.__file__).parent / "include"
if not (INCLUDE / "c10" / "metal").is_dir():
    pytest.skip("this torch has no c10/metal", allow_module_level=True)

SOURCE = """
#include <c10/metal/atomic.h>
#include <c10/metal/error.h>
#include <c10/metal/indexing.h>
#include <c10/metal/random.h>
#include <c10/metal/reduction_utils.h>
#include <c10/metal/special_math.h>
using namespace c10::metal;
struct erf_functor {
  template <typename T> T operator()(const T x) { return static_cast<T>(c10::metal::erf(x)); }
};
REGISTER_UNARY_OP(erf, float, float);
kernel void group_sum(device float* out [[buffer(0)]], device const float* in [[buffer(1)]],
                      uint t [[thread_position_in_threadgroup]],
                      uint n [[threads_per_threadgroup]]) {
  threadgroup float shared[32];
  float r = c10::metal::threadgroup_sum(shared, in[t], t, n);
  if (t == 0) out[0] = r;
}
kernel void group_argmax(device long* out [[buffer(0)]], device const float* in [[buffer(1)]],
                         uint t [[thread_position_in_threadgroup]],
                         uint n [[threads_per_threadgroup]]) {
  threadgroup float shared[32];
  threadgroup long indices[32];
  long r = c10::metal::threadgroup_argmax(shared, indices, in[t], long(t), t, n);
  if (t == 0) out[0] = r;
}
kernel void random(device float* out [[buffer(0)]], constant long& seed [[buffer(1)]],
                   uint i [[thread_position_in_grid]]) {
  out[i] = c10::metal::randn(seed, i);
}
kernel void add_half(device AtomicType<half>::type* out [[buffer(0)]],
                     uint i [[thread_position_in_grid]]) {
  AtomicType<half>::atomic_add(out, i % 7, half(1));
}
"""


def test_c10_metal_compiles(compiled):
    translation = compiled(SOURCE, include_folders=[str(INCLUDE)])
    names = {kernel.name: kernel.waits for kernel in translation.kernels}
    assert names["erf_dense_float_float"] is False
    assert names["group_sum"] is True
    assert {"group_argmax", "random", "add_half", "erf_strided_float_float"} <= set(names)
