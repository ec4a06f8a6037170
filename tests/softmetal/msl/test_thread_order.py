"""The order of a threadgroup's threads: a missing barrier shows in one of the two."""

import numpy as np
import pytest

from mps_ds import softmetal

# All but the last two lack a barrier between a write and the read by another thread. Kernels that
# wait nowhere run as plain loops, the others as fibers.
SOURCE = """
kernel void broadcast(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup float a;
  if (i == 0) a = 7;
  out[i] = a;
}
kernel void neighbour(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup float a[128];
  a[i] = i;
  out[i] = i ? a[i - 1] : 0;
}
kernel void broadcast_of_fibers(device float* out [[buffer(0)]],
                                uint i [[thread_index_in_threadgroup]]) {
  threadgroup float a;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (i == 0) a = 7;
  out[i] = a;
}
kernel void neighbour_of_fibers(device float* out [[buffer(0)]],
                                uint i [[thread_index_in_threadgroup]]) {
  threadgroup float a[128];
  a[i] = i;
  out[i] = i ? a[i - 1] : 0;
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
kernel void of_simdgroups(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]],
                          uint s [[simdgroup_index_in_threadgroup]]) {
  threadgroup float a[4];
  float sum = simd_sum(1.0f);
  a[s] = sum;
  out[i] = s ? a[s - 1] : sum;
}
kernel void correct(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup float a[128];
  a[i] = i;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = i ? a[i - 1] : 0;
}
kernel void who_runs_when(device atomic_uint* ticket [[buffer(0)]], device uint* turn [[buffer(1)]],
                          uint3 at [[thread_position_in_threadgroup]],
                          uint i [[thread_index_in_threadgroup]]) {
  turn[i] = atomic_fetch_add_explicit(ticket, 1u, memory_order_relaxed);
  turn[i] += 1000 * (i != at.x + 4 * (at.y + 3 * at.z));
}
"""

NEIGHBOUR = [0, *range(127)]
SEVEN = [7] * 128
ALL = [32] * 128


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("broadcast", SEVEN),
        ("neighbour", NEIGHBOUR),
        ("broadcast_of_fibers", SEVEN),
        ("neighbour_of_fibers", NEIGHBOUR),
        ("of_simdgroups", ALL),
    ],
)
def test_a_missing_barrier_shows_in_one_order(run, kernel, expected):
    def differs():
        out = np.zeros(128, np.float32)
        run(SOURCE, kernel, [out], 128)
        return out.tolist() != expected

    with softmetal.changed_settings(order=softmetal.Order.REVERSE):
        backwards = differs()
    assert differs() != backwards


@pytest.mark.parametrize("order", [softmetal.Order.FORWARD, softmetal.Order.REVERSE])
def test_with_its_barrier_a_kernel_is_right_in_both(run, order):
    out = np.zeros(128, np.float32)
    with softmetal.changed_settings(order=order):
        run(SOURCE, "correct", [out], 128)
    assert out.tolist() == NEIGHBOUR


def test_threads_of_a_loop_in_three_dimensions_run_backwards(run):
    turns = [np.zeros(24, np.uint32), np.zeros(24, np.uint32)]
    run(SOURCE, "who_runs_when", [np.zeros(1, np.uint32), turns[0]], (4, 3, 2))
    with softmetal.changed_settings(order=softmetal.Order.REVERSE):
        run(SOURCE, "who_runs_when", [np.zeros(1, np.uint32), turns[1]], (4, 3, 2))
    assert turns[0].tolist() == list(range(24))
    assert turns[1].tolist() == list(range(23, -1, -1))
