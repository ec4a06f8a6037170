"""Settings of the device, by call and by environment variable."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from mps_ds import softmetal as metal


def _half(host: Any, value: float) -> float:
    x = host.floats(1, value=value)
    host.encoder("product").bind(x).dispatch().finish()
    return float(metal.array(x, np.float32)[0])


SMALLEST_NORMAL = 2.0**-126


def test_float32_subnormals_are_flushed_as_on_apple_gpus(host: Any) -> None:
    assert _half(host, SMALLEST_NORMAL) == 0  # a subnormal result
    assert _half(host, SMALLEST_NORMAL * 2) == SMALLEST_NORMAL
    assert _half(host, SMALLEST_NORMAL / 2 * 1.5) == 0  # a subnormal operand


def test_flushing_can_be_turned_off(host: Any) -> None:
    with metal.changed_settings(flush_subnormals=False):
        assert _half(host, SMALLEST_NORMAL) == SMALLEST_NORMAL / 2
    assert _half(host, SMALLEST_NORMAL) == 0


def test_the_hosts_floating_point_mode_is_left_alone(host: Any) -> None:
    x = host.floats(256, value=1)
    host.encoder("add_one").bind(x).dispatch(256, 1).finish()
    with pytest.raises(metal.MetalError):  # also when a kernel faults
        host.encoder("poke").bind(x, np.int32(10**8)).dispatch().finish()
    assert np.float32(SMALLEST_NORMAL) * np.float32(0.5) == SMALLEST_NORMAL / 2


@pytest.mark.parametrize("limit", [1024, 896, 448])
def test_the_device_can_report_fewer_threads(host: Any, limit: int) -> None:
    with metal.changed_settings(max_threads=limit):
        assert host.pipeline("add_one").max_total_threads_per_threadgroup == limit
        assert host.pipeline("limited").max_total_threads_per_threadgroup == 256
        e = host.encoder("add_one").bind(host.floats(1024))
        e.dispatch(1024, limit)
        with pytest.raises(metal.ValidationError, match="maxTotalThreadsPerThreadgroup"):
            e.dispatch(1024, limit + 32 if limit < 1024 else (1024, 2))
        e.finish()


@pytest.mark.parametrize(("name", "value"), [("max_threads", 100), ("max_threads", 0),
                                             ("max_threads", 2048), ("alignment", 3),
                                             ("alignment", 512)])  # fmt: skip
def test_settings_that_make_no_sense(name: str, value: int) -> None:
    with pytest.raises(metal.ValidationError, match=f"{name}.*got {value}"):
        metal.changed_settings(**{name: value}).__enter__()


def test_order_of_threadgroups(host: Any) -> None:
    def order() -> Any:
        ticket, log = host.buffer(np.zeros(1, np.uint32)), host.buffer(np.zeros(8, np.uint32))
        host.encoder("group_log").bind(ticket, log).dispatch(8, 1).finish()
        return metal.array(log, np.uint32)

    assert sorted(order()) == list(range(8))
    with metal.changed_settings(order=metal.Order.REVERSE):
        assert sorted(order()) == list(range(8))


def _in_a_process(code: str, **environment: str) -> str:
    script = f"import numpy as np\nfrom mps_ds import softmetal as metal\n{code}"
    result = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_order_of_threadgroups_with_one_worker() -> None:
    code = """
source = '''#include <metal_stdlib>
using namespace metal;
kernel void log(device atomic_uint* t [[buffer(0)]], device uint* o [[buffer(1)]],
                uint g [[threadgroup_position_in_grid]]) {
  o[atomic_fetch_add_explicit(t, 1u, memory_order_relaxed)] = g;
}'''
order = np.zeros(4, np.uint32)
metal.run(source, "log", [np.zeros(1, np.uint32), order], 4, 1)
print(metal.worker_threads(), order.tolist())
"""
    assert _in_a_process(code, SOFTMETAL_THREADS="1") == "1 [0, 1, 2, 3]"
    reverse = _in_a_process(code, SOFTMETAL_THREADS="1", SOFTMETAL_ORDER="reverse")
    assert reverse == "1 [3, 2, 1, 0]"


@pytest.mark.parametrize(
    ("variable", "value", "expression", "expected"),
    [
        ("SOFTMETAL_STRICT", "0", "s.strict", "False"),
        ("SOFTMETAL_FLUSH_SUBNORMALS", "0", "s.flush_subnormals", "False"),
        ("SOFTMETAL_MAX_THREADS", "896", "s.max_threads", "896"),
        ("SOFTMETAL_ALIGN", "4", "s.alignment", "4"),
        ("SOFTMETAL_GUARD", "front", "s.guard == metal.Guard.FRONT", "True"),
        ("SOFTMETAL_ORDER", "reverse", "s.order == metal.Order.REVERSE", "True"),
        ("SOFTMETAL_ORDER", "shuffled", "s.order == metal.Order.SHUFFLED", "True"),
        ("SOFTMETAL_SEED", "7", "s.seed", "7"),
        ("SOFTMETAL_DELAY", "7", "s.delay", "7"),
        ("SOFTMETAL_THREADS", "7", "s.workers", "7"),
        ("SOFTMETAL_TRACE", "1", "s.trace", "True"),
        ("SOFTMETAL_FAIL_ON_RACE", "0", "s.fail_on_race", "False"),
        ("SOFTMETAL_POISON", "1", "s.poison", "True"),
        ("SOFTMETAL_HIDE_CONTENTS", "1", "s.hide_contents", "True"),
        ("SOFTMETAL_TIMEOUT", "7", "s.timeout", "7"),
    ],
)
def test_environment_variables(variable: str, value: str, expression: str, expected: str) -> None:
    code = f"s = metal.settings()\nprint({expression})"
    assert _in_a_process(code, **{variable: value}) == expected
    defaults = metal.Settings()
    assert str(eval(expression, {"s": defaults, "metal": metal})) != expected


def test_poisoned_buffers_are_nan(host: Any) -> None:
    with metal.changed_settings(poison=True):
        fresh = host.device.new_buffer_with_length(64)
    assert np.isnan(metal.array(fresh, np.float32)).all()


@pytest.mark.parametrize("alignment", [1, 4, 16, 64])
def test_alignment_is_that_of_the_end_of_a_buffer(host: Any, alignment: int) -> None:
    with metal.changed_settings(alignment=alignment):
        buffer = host.device.new_buffer_with_length(20)
    end = buffer.gpu_address + 20
    page = 4096
    assert -end % page < alignment
