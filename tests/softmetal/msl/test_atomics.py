"""Atomic operations by threads of many threadgroups."""

import numpy as np
import pytest

SOURCE = """
kernel void histogram(device atomic_uint* bins [[buffer(0)]], device const uint* x [[buffer(1)]],
                      uint i [[thread_position_in_grid]]) {
  atomic_fetch_add_explicit(&bins[x[i] % 16], 1u, memory_order_relaxed);
}
kernel void all(device atomic_int* out [[buffer(0)]], device const int* x [[buffer(1)]],
                uint i [[thread_position_in_grid]]) {
  int v = x[i];
  atomic_fetch_add_explicit(out + 0, v, memory_order_relaxed);
  atomic_fetch_sub_explicit(out + 1, v, memory_order_relaxed);
  atomic_fetch_min_explicit(out + 2, v, memory_order_relaxed);
  atomic_fetch_max_explicit(out + 3, v, memory_order_relaxed);
  atomic_fetch_and_explicit(out + 4, v, memory_order_relaxed);
  atomic_fetch_or_explicit(out + 5, v, memory_order_relaxed);
  atomic_fetch_xor_explicit(out + 6, v, memory_order_relaxed);
}
kernel void floats(device atomic_float* out [[buffer(0)]], device const float* x [[buffer(1)]],
                   uint i [[thread_position_in_grid]]) {
  atomic_fetch_add_explicit(out, x[i], memory_order_relaxed);
}
kernel void exchange(device atomic_uint* ticket [[buffer(0)]], device uint* seen [[buffer(1)]],
                     uint i [[thread_position_in_grid]]) {
  seen[i] = atomic_fetch_add_explicit(ticket, 1u, memory_order_relaxed);
  uint expected = atomic_load_explicit(ticket + 1, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(ticket + 1, &expected, expected * 3 + 1,
                                                memory_order_relaxed, memory_order_relaxed)) {}
}
kernel void in_threadgroup(device uint* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]],
                           uint group [[threadgroup_position_in_grid]]) {
  threadgroup atomic_uint count;
  if (i == 0) atomic_store_explicit(&count, 0u, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  atomic_fetch_add_explicit(&count, i, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (i == 0) out[group] = atomic_load_explicit(&count, memory_order_relaxed);
}
kernel void longs(device atomic_ulong* out [[buffer(0)]], device const ulong* x [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) {
  atomic_max_explicit(out, x[i], memory_order_relaxed);
}
"""


def test_counts_from_many_threadgroups_add_up(run):
    x = np.random.default_rng(0).integers(0, 1000, 20_000).astype(np.uint32)
    bins = np.zeros(16, np.uint32)
    run(SOURCE, "histogram", [bins, x], len(x), 64)
    assert np.array_equal(bins, np.bincount(x % 16, minlength=16))


def test_each_operation(run):
    x = np.random.default_rng(1).integers(-(2**20), 2**20, 5000).astype(np.int32)
    out = np.int32([0, 0, 2**31 - 1, -(2**31), -1, 0, 0])
    run(SOURCE, "all", [out, x], len(x), 128)
    want = [x.sum(dtype=np.int32), -x.sum(dtype=np.int32), x.min(), x.max()]
    want += [f.reduce(x) for f in (np.bitwise_and, np.bitwise_or, np.bitwise_xor)]
    assert out.tolist() == [int(v) for v in want]


def test_float_addition(run):
    x = np.random.default_rng(2).integers(-100, 100, 10_000).astype(np.float32)
    out = np.zeros(1, np.float32)
    run(SOURCE, "floats", [out, x], len(x), 64)
    assert out[0] == x.sum()  # whole numbers: any order gives the same


def test_a_fetch_returns_each_value_once_and_an_exchange_loses_none(run):
    ticket, seen = np.zeros(2, np.uint32), np.zeros(3000, np.uint32)
    run(SOURCE, "exchange", [ticket, seen], 3000, 32)
    assert np.array_equal(np.sort(seen), np.arange(3000))
    value = 0
    for _ in range(3000):
        value = (value * 3 + 1) % 2**32
    assert ticket.tolist() == [3000, value]


def test_atomics_in_threadgroup_memory(run):
    out = np.zeros(10, np.uint32)
    run(SOURCE, "in_threadgroup", [out], 1000, 100)
    assert out.tolist() == [4950] * 10


def test_64_bit_maximum(run):
    x = np.random.default_rng(3).integers(0, 2**63, 1000).astype(np.uint64)
    out = np.zeros(1, np.uint64)
    run(SOURCE, "longs", [out, x], 1000, 100)
    assert out[0] == x.max()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "atomic_fetch_add_explicit((device atomic_ulong*)x, 1ul, memory_order_relaxed);",
            "no matching function",
        ),
        (
            "atomic_fetch_max_explicit((device atomic_float*)x, 1.0, memory_order_relaxed);",
            "no matching function",
        ),
        (
            "atomic_store_explicit((device atomic_uint*)x, 1u, memory_order_seq_cst);",
            "memory_order_seq_cst",
        ),
        (
            "atomic_load_explicit((device atomic<short>*)x, memory_order_relaxed);",
            "T must be int, uint, bool, ulong or float",
        ),
    ],
)
def test_what_msl_3_1_lacks_is_refused(run, statement, message):
    source = f"kernel void k(device uint* x) {{ {statement} }}"
    with pytest.raises(Exception, match=message):
        run(source, "k", [np.zeros(4, np.uint32)], 1)
