"""What the device counts, and when: encoded work counts before it runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from mps_ds import softmetal as metal


def test_one_dispatch_counted_before_it_runs(host: Any) -> None:
    e = host.encoder("saxpy").bind(host.floats(100), host.floats(100), np.float32(2))
    e.dispatch(100, 32)
    counted = metal.counters()
    assert counted["kernels"] == {
        "saxpy": {"dispatches": 1, "threadgroups": 4, "threads": 100, "encoders": 1, "declared": 0}
    }
    assert {
        name: counted[name]
        for name in ("command_buffers", "commits", "waits", "encoders", "dispatches", "bytes_set")
    } == {
        "command_buffers": 1,
        "commits": 0,
        "waits": 0,
        "encoders": 1,
        "dispatches": 1,
        "bytes_set": 4,
    }
    e.finish()
    after = metal.counters()
    assert (after["commits"], after["waits"], after["buffers"]) == (1, 1, 2)


def test_reset(host: Any) -> None:
    host.encoder("add_one").bind(host.floats(1)).dispatch().finish()
    metal.reset_counters()
    counted = metal.counters()
    assert counted.pop("kernels") == {}
    assert set(counted.values()) == {0}


def test_distinct_declared_resources(host: Any) -> None:
    rows = [host.floats(2) for _ in range(5)]
    e = host.encoder("scale_rows").bind(host.buffer(host.rows(rows)), np.float32(1))
    e.encoder.use_resources(rows, metal.USAGE_READ)
    e.encoder.use_resources(rows, metal.USAGE_READ | metal.USAGE_WRITE)
    e.encoder.use_resource(rows[0], metal.USAGE_READ)
    e.dispatch(2, 2)
    counted = metal.counters()
    assert (counted["use_resource_calls"], counted["declared"]) == (11, 5)
    assert counted["kernels"]["scale_rows"]["declared"] == 5
    e.dispatch(2, 2).finish()
    assert metal.counters()["kernels"]["scale_rows"]["declared"] == 5  # once for each encoder


def test_encoders_and_declared_resources_of_several_kernels(host: Any) -> None:
    rows = [host.floats(2) for _ in range(3)]
    e = host.encoder("add_one").bind(rows[0]).dispatch(2, 2).dispatch(2, 2)
    e.encoder.use_resources(rows, metal.USAGE_READ | metal.USAGE_WRITE)
    e.encoder.set_compute_pipeline_state(host.pipeline("scale_rows"))
    e.bind(host.buffer(host.rows(rows)), np.float32(1)).dispatch(2, 2).finish()
    host.encoder("add_one").bind(rows[0]).dispatch(2, 2).finish()
    kernels = metal.counters()["kernels"]
    assert kernels["add_one"] == {
        "dispatches": 3, "threadgroups": 3, "threads": 6, "encoders": 2, "declared": 0,
    }  # fmt: skip
    assert kernels["scale_rows"] == {
        "dispatches": 1, "threadgroups": 1, "threads": 2, "encoders": 1, "declared": 3,
    }  # fmt: skip
    assert metal.counters()["encoders"] == 2


def test_thousands_of_declared_resources(host: Any) -> None:
    buffers = [host.floats(1) for _ in range(3000)]
    e = host.encoder("add_one").bind(buffers[0])
    for buffer in buffers:
        e.encoder.use_resource(buffer, metal.USAGE_READ)
    e.encoder.use_resources(buffers[::-1], metal.USAGE_WRITE)
    e.dispatch().finish()
    assert metal.counters()["declared"] == 3000


def test_barriers_and_simdgroup_operations_of_what_ran(host: Any) -> None:
    x = host.floats(64)
    e = host.encoder("shared_sum").bind(x)
    e.encoder.set_threadgroup_memory_length(256, 0)
    e.dispatch(64, 64)
    assert metal.counters()["barriers"] == 0
    e.finish()
    assert metal.counters()["barriers"] == 2 * 64


def test_refused_dispatches_do_not_count(host: Any) -> None:
    e = host.encoder("add_one")
    try:
        e.dispatch()
    except metal.ValidationError:
        e.abandon()
    assert metal.counters()["dispatches"] == 0
