"""simdgroup_matrix: products, loads, stores and the elements of each lane; quadgroup positions."""

import numpy as np
import pytest

from mps_ds.softmetal import MetalError

SOURCE = """
#include <metal_simdgroup_matrix>
template <class T, class U> void product(device const T* a, device const T* b, device U* c) {
  simdgroup_matrix<T, 8, 8> x, y;
  simdgroup_matrix<U, 8, 8> z;
  simdgroup_load(x, a);
  simdgroup_load(y, b, 8, ulong2(0, 0), true);
  simdgroup_load(z, c);
  simdgroup_multiply_accumulate(z, x, y, z);
  simdgroup_store(z, c);
}
kernel void product_float(device const float* a, device const float* b, device float* c) {
  product(a, b, c);
}
kernel void product_half(device const half* a, device const half* b, device float* c) {
  product(a, b, c);
}
kernel void through_threadgroup(device const float* a, device float* b,
                                uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float memory[16 * 20];
  for (uint i = lane; i < 16 * 20; i += 32) memory[i] = -1;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  simdgroup_float8x8 x, two = simdgroup_float8x8(2.0f);
  simdgroup_float8x8 filled = make_filled_simdgroup_matrix<float, 8>(1.0f);
  simdgroup_load(x, a, 10, ulong2(2, 1));
  simdgroup_multiply(x, x, two);
  simdgroup_store(x * filled, memory, 20, ulong2(3, 4), true);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = lane; i < 16 * 20; i += 32) b[i] = memory[i];
}
kernel void elements(device float* out, uint lane [[thread_index_in_simdgroup]]) {
  simdgroup_float8x8 x;
  x.thread_elements()[0] = 2 * lane;
  x.thread_elements()[1] = 2 * lane + 1;
  simdgroup_store(x, out);
}
kernel void divergent(device const float* a, device float* b,
                      uint lane [[thread_index_in_simdgroup]]) {
  simdgroup_float8x8 x;
  if (lane < 20) simdgroup_load(x, a);
  b[lane] = x.thread_elements()[0];
}
kernel void quads(device uint3* out, uint thread_ [[thread_index_in_threadgroup]],
                  ushort lane [[thread_index_in_quadgroup]],
                  uint quad [[quadgroup_index_in_threadgroup]],
                  ushort count [[quadgroups_per_threadgroup]]) {
  out[thread_] = uint3(lane, quad, count);
}
"""


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_product(run, dtype):
    """Small integers, so that every order of the sums gives the same."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, (8, 8)).astype(dtype) for _ in range(2))
    c = rng.integers(-9, 9, (8, 8)).astype(np.float32)
    expected = a.astype(np.float32) @ b.astype(np.float32).T + c
    run(SOURCE, "product_float" if dtype is np.float32 else "product_half", [a, b, c], 32)
    np.testing.assert_array_equal(c, expected)


def test_origins_strides_and_transposition(run):
    a = np.arange(100, dtype=np.float32).reshape(10, 10)
    out = np.zeros((16, 20), np.float32)
    run(SOURCE, "through_threadgroup", [a, out], 32)
    expected = np.full((16, 20), -1, np.float32)
    product = 2 * a[1:9, 2:10] @ np.ones((8, 8), np.float32)
    expected[4:12, 3:11] = product.T
    np.testing.assert_array_equal(out, expected)


def test_each_lane_has_two_neighbours_of_one_row(run):
    out = np.zeros((8, 8), np.float32)
    run(SOURCE, "elements", [out], 32)
    for lane in range(32):
        row = (lane // 4 & 4) + lane // 2 % 4
        column = (lane // 4 & 2) * 2 + lane % 2 * 2
        assert out[row, column : column + 2].tolist() == [2 * lane, 2 * lane + 1]


@pytest.mark.parametrize(("kernel", "threads"), [("divergent", 32), ("elements", 24)])
def test_all_lanes_must_take_part(run, kernel, threads):
    arrays = [np.zeros((8, 8), np.float32) for _ in range(2 if kernel == "divergent" else 1)]
    with pytest.raises(MetalError, match=r"reached by 2[04] lanes .* unless all 32 take part"):
        run(SOURCE, kernel, arrays, threads)


def test_positions_in_quadgroups(run):
    out = np.zeros((10, 4), np.uint32)
    run(SOURCE, "quads", [out], 10)
    assert out[:, :3].tolist() == [[i % 4, i // 4, 3] for i in range(10)]
