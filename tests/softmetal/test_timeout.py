"""A dispatch that never ends is stopped, and the device goes on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mps_ds import softmetal as metal

SOURCE = """#include <metal_stdlib>
using namespace metal;
kernel void spin(device atomic_uint* x [[buffer(0)]]) {
  while (atomic_load_explicit(x, memory_order_relaxed) == 0) {
  }
}
kernel void spin_of_fibers(device atomic_uint* x [[buffer(0)]]) {
  while (atomic_load_explicit(x, memory_order_relaxed) == 0) {
    threadgroup_barrier(mem_flags::mem_device);
  }
}
"""


@pytest.mark.parametrize("kernel", ["spin", "spin_of_fibers"])
@pytest.mark.parametrize("groups", [1, 5])
def test_a_kernel_that_never_ends_is_stopped(host: Any, kernel: str, groups: int) -> None:
    with metal.changed_settings(timeout=1):
        with pytest.raises(metal.MetalError, match="no threadgroup ended for 1 seconds") as error:
            metal.run(SOURCE, kernel, [np.zeros(1, np.uint32)], 32 * groups, 32)
        assert error.value.code == metal.CommandBufferError.TIMEOUT
        assert f"kernel '{kernel}'" in str(error.value)
        if kernel == "spin":  # the other is mostly in the device's own scheduler, without a line
            assert "program_source:4:" in str(error.value)
        metal.run(SOURCE, kernel, [np.ones(1, np.uint32)], 32 * groups, 32)
    x = host.floats(4)
    host.encoder("add_one").bind(x).dispatch(4, 4).finish()
    assert metal.array(x, np.float32).tolist() == [1] * 4


def test_without_a_timeout_kernels_run() -> None:
    with metal.changed_settings(timeout=0):
        metal.run(SOURCE, "spin", [np.ones(1, np.uint32)], 32, 32)
