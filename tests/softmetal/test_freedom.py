"""What hardware may choose: each setting does it, and tests see a result that depends on it."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import pytest

from mps_ds import softmetal as metal

SOURCE = """#include <metal_stdlib>
using namespace metal;
kernel void log_groups(device atomic_uint* ticket [[buffer(0)]], device uint* log [[buffer(1)]],
                       uint g [[threadgroup_position_in_grid]]) {
  log[atomic_fetch_add_explicit(ticket, 1u, memory_order_relaxed)] = g;
}
kernel void log_threads(device atomic_uint* ticket [[buffer(0)]], device uint* log [[buffer(1)]],
                        uint i [[thread_position_in_threadgroup]]) {
  log[atomic_fetch_add_explicit(ticket, 1u, memory_order_relaxed)] = i;
}
kernel void log_threads_twice(device atomic_uint* ticket [[buffer(0)]],
                              device uint* log [[buffer(1)]],
                              uint i [[thread_position_in_threadgroup]]) {
  log[atomic_fetch_add_explicit(ticket, 1u, memory_order_relaxed)] = i;
  threadgroup_barrier(mem_flags::mem_none);
  log[atomic_fetch_add_explicit(ticket, 1u, memory_order_relaxed)] = i;
}
kernel void meet(device atomic_uint* here [[buffer(0)]]) {
  atomic_fetch_add_explicit(here, 1u, memory_order_relaxed);
  while (atomic_load_explicit(here, memory_order_relaxed) < 2) {
  }
}
kernel void halve(device float* x [[buffer(0)]]) { x[0] *= 0.5f; }
kernel void add_one(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  x[i] += 1;
}
"""


def logged(kernel: str, n: int, groups: bool = False, **settings: Any) -> list[int]:
    """What each thread (or threadgroup) of a kernel wrote to the log, in order; on one worker."""
    log = np.full(2 * n, 9999, np.uint32)
    with metal.changed_settings(workers=1, **settings):
        metal.run(SOURCE, kernel, [np.zeros(1, np.uint32), log], n, 1 if groups else n)
    return [int(i) for i in log if i != 9999]


SHUFFLED = metal.Order.SHUFFLED


@pytest.mark.parametrize("kernel", ["log_groups", "log_threads"])
@pytest.mark.parametrize("n", [1, 2, 5, 33, 256])
def test_shuffled_is_a_permutation_that_the_seed_chooses(kernel: str, n: int) -> None:
    groups = kernel == "log_groups"
    orders = [logged(kernel, n, groups, order=SHUFFLED, seed=seed) for seed in (1, 2, 1)]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(n))
    assert orders[0] == orders[2]
    if n > 5:
        forward, reverse = list(range(n)), list(range(n))[::-1]
        assert orders[0] != orders[1]
        assert forward not in orders and reverse not in orders  # noqa: PT018


def test_shuffled_threadgroups_of_many_sizes() -> None:
    for n in [*range(1, 20), 1000, 1024, 1025]:
        assert sorted(logged("log_groups", n, True, order=SHUFFLED, seed=n)) == list(range(n))


def test_after_a_barrier_the_order_is_another() -> None:
    order = logged("log_threads_twice", 128, order=SHUFFLED, seed=7)
    before, after = order[:128], order[128:]
    assert sorted(before) == sorted(after) == list(range(128))
    assert before != after


def test_shuffled_simdgroups_are_interleaved() -> None:
    order = logged("log_threads_twice", 128, order=SHUFFLED)
    for half in (order[:128], order[128:]):
        changes = sum(a // 32 != b // 32 for a, b in itertools.pairwise(half))
        assert changes > 32  # one simdgroup after the other would have three


def test_two_workers_run_at_the_same_time_and_one_does_not() -> None:
    with metal.changed_settings(workers=2):
        assert metal.worker_threads() == 2
        metal.run(SOURCE, "meet", [np.zeros(1, np.uint32)], 2, 1)
    with metal.changed_settings(workers=1, timeout=1):
        assert metal.worker_threads() == 1
        with pytest.raises(metal.MetalError) as error:
            metal.run(SOURCE, "meet", [np.zeros(1, np.uint32)], 2, 1)
        assert error.value.code == metal.CommandBufferError.TIMEOUT


def test_more_workers_than_there_were() -> None:
    x = np.zeros(4096, np.float32)
    for workers in (3, 1, 4):
        with metal.changed_settings(workers=workers):
            metal.run(SOURCE, "add_one", [x], 4096, 32)
    assert (x == 3).all()


def test_too_many_workers() -> None:
    with pytest.raises(metal.ValidationError, match=r"workers .* at most 256, got 1000"):
        metal.changed_settings(workers=1000).__enter__()


def test_delayed_command_buffers_take_at_least_that_long() -> None:
    with metal.changed_settings(delay=40):
        begin = time.monotonic()
        metal.run(SOURCE, "add_one", [np.zeros(4, np.float32)], 4, 4)
    assert time.monotonic() - begin >= 0.080  # before it starts, and when it is done


def test_the_thread_limit_holds_for_pipelines_that_exist() -> None:
    device = metal.Device()
    library = device.new_library_with_source(SOURCE, metal.precise_options())
    function = library.new_function_with_name("add_one")
    pipeline = device.new_compute_pipeline_state_with_function(function)
    assert pipeline.max_total_threads_per_threadgroup == 1024
    for limit in (896, 448):
        with metal.changed_settings(max_threads=limit):
            assert pipeline.max_total_threads_per_threadgroup == limit
            with pytest.raises(metal.ValidationError, match="maxTotalThreadsPerThreadgroup"):
                metal.run(SOURCE, "add_one", [np.zeros(1024, np.float32)], 1024, limit + 32)
    assert pipeline.max_total_threads_per_threadgroup == 1024


# ---- tests/freedom.py ---------------------------------------------------------------------------


def test_a_result_that_depends_on_the_order_is_seen(same_under_freedom: Any) -> None:
    def compute() -> Any:
        log = np.zeros(64, np.uint32)
        metal.run(SOURCE, "log_threads", [np.zeros(1, np.uint32), log], 64, 64)
        return log

    with pytest.raises(AssertionError, match=r"^reversed: .* bytes of result 0 differ"):
        same_under_freedom(compute)


def test_a_result_that_depends_on_subnormals_is_seen(same_under_freedom: Any) -> None:
    def compute() -> Any:
        x = np.full(1, 2.0**-126, np.float32)
        metal.run(SOURCE, "halve", [x], 1)
        return [x]

    with pytest.raises(AssertionError, match=r"^subnormals kept: "):
        same_under_freedom(compute)
    same_under_freedom(compute, without=("subnormals kept",))


def test_every_setting_is_one_of_the_device() -> None:
    from freedom import SETTINGS

    known = {name for name in dir(metal.Settings()) if not name.startswith("_")}
    assert {name for changes in SETTINGS.values() for name in changes} <= known
