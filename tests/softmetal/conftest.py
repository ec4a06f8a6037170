"""Kernels and short-hands for the tests of the software Metal device. No torch here."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

if sys.platform != "linux":
    pytest.skip("the software Metal device is for Linux", allow_module_level=True)

from mps_ds import softmetal as metal

# One source, so that it is compiled once. The line numbers are asserted on: see line_of.
SOURCE = """#include <metal_stdlib>
using namespace metal;

kernel void add_one(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  x[i] += 1;
}
kernel void saxpy(device float* y [[buffer(0)]], device const float* x [[buffer(1)]],
                  constant float& a [[buffer(2)]], uint i [[thread_position_in_grid]]) {
  y[i] += a * x[i];
}
// Not commutative: the order of dispatches shows.
kernel void step(device uint* x [[buffer(0)]], constant uint& k [[buffer(1)]],
                 uint i [[thread_position_in_grid]]) {
  x[i] = x[i] * 3 + k;
}
struct Row {
  device float* data;
  ulong length;
};
kernel void scale_rows(device const Row* rows [[buffer(0)]], constant float& a [[buffer(1)]],
                       uint2 at [[thread_position_in_grid]]) {
  Row row = rows[at.y];
  if (at.x < row.length) row.data[at.x] *= a;
}
kernel void sum_rows(device const Row* rows [[buffer(0)]], device float* sums [[buffer(1)]],
                     uint row [[thread_position_in_grid]]) {
  float sum = 0;
  for (ulong i = 0; i < rows[row].length; ++i) sum += rows[row].data[i];
  sums[row] = sum;
}
kernel void poke(device float* x [[buffer(0)]], constant int& where [[buffer(1)]]) {
  x[where] = 1;
}
kernel void peek(device const float* x [[buffer(0)]], constant int& where [[buffer(1)]],
                 device float* out [[buffer(2)]]) {
  *out = x[where];
}
kernel void peek_bytes(constant float* x [[buffer(0)]], constant int& where [[buffer(1)]],
                       device float* out [[buffer(2)]]) {
  *out = x[where];
}
kernel void through(constant ulong& address [[buffer(0)]], device float* out [[buffer(1)]]) {
  *out = *(device const float*)address;
}
struct Pointer {
  device float* data;
};
kernel void write_through(constant Pointer& p [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  p.data[i] = 7;
}
kernel void wide(device float4* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  x[i] += 1;
}
kernel void shared_sum(device float* x [[buffer(0)]], threadgroup float* scratch [[threadgroup(0)]],
                       uint i [[thread_position_in_threadgroup]],
                       uint n [[threads_per_threadgroup]]) {
  scratch[i] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float sum = 0;
  for (uint k = 0; k < n; ++k) sum += scratch[k];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  x[i] = sum;
}
kernel void two_scratches(device float* x [[buffer(0)]], threadgroup float* a [[threadgroup(0)]],
                          threadgroup float* b [[threadgroup(1)]]) {
  a[0] = b[0] = 1;
  x[0] = a[0] + b[0];
}
[[max_total_threads_per_threadgroup(256)]]
kernel void limited(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  x[i] = 1;
}
kernel void divide(device int* x [[buffer(0)]], constant int& by [[buffer(1)]]) {
  x[0] = x[0] / by;
}
kernel void product(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  x[i] = x[i] * 0.5f;
}
kernel void group_log(device atomic_uint* ticket [[buffer(0)]], device uint* order [[buffer(1)]],
                      uint group [[threadgroup_position_in_grid]]) {
  order[atomic_fetch_add_explicit(ticket, 1u, memory_order_relaxed)] = group;
}
constant float factor [[function_constant(0)]];
constant bool negate [[function_constant(1)]];
kernel void constants(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  float f = is_function_constant_defined(factor) ? factor : 1.0f;
  x[i] = (is_function_constant_defined(negate) && negate) ? -x[i] * f : x[i] * f;
}
"""


def line_of(text: str) -> str:
    """ "program_source:12:" of the line of SOURCE that holds `text`."""
    lines = [n for n, line in enumerate(SOURCE.splitlines(), 1) if text in line]
    assert len(lines) == 1, f"{text!r} is on the lines {lines}"
    return f"program_source:{lines[0]}:"


class Host:
    """A device, a queue and the pipelines of SOURCE."""

    def __init__(self) -> None:
        self.device = metal.Device()
        self.library = self.device.new_library_with_source(SOURCE, metal.precise_options())
        self.queue = self.device.new_command_queue()

    def pipeline(self, kernel: str) -> metal.ComputePipelineState:
        function = self.library.new_function_with_name(kernel)
        assert function is not None
        return self.device.new_compute_pipeline_state_with_function(function)

    def buffer(
        self, data: Any, label: str = "", options: int = metal.STORAGE_SHARED
    ) -> metal.Buffer:
        buffer = self.device.new_buffer_with_bytes(np.ascontiguousarray(data), options)
        if label:
            buffer.label = label
        return buffer

    def floats(self, n: int, label: str = "", value: float = 0) -> metal.Buffer:
        return self.buffer(np.full(n, value, np.float32), label)

    def rows(self, buffers: Sequence[metal.Buffer], offsets: Sequence[int] | None = None) -> Any:
        """A table for scale_rows and sum_rows."""
        offsets = offsets or [0] * len(buffers)
        return np.array(
            [
                (b.gpu_address + o, (b.length - o) // 4)
                for b, o in zip(buffers, offsets, strict=True)
            ],
            dtype=[("data", np.uint64), ("length", np.uint64)],
        )

    def encoder(self, kernel: str | None = None, **how: Any) -> Encoding:
        return Encoding(self, kernel, **how)


class Encoding:
    """A command buffer with one open encoder."""

    def __init__(self, host: Host, kernel: str | None, concurrent: bool = False) -> None:
        self.host = host
        self.commands = host.queue.command_buffer()
        self.encoder = self.commands.compute_command_encoder(
            metal.DispatchType.CONCURRENT if concurrent else metal.DispatchType.SERIAL
        )
        if kernel:
            self.encoder.set_compute_pipeline_state(host.pipeline(kernel))

    def bind(self, *arguments: Any) -> Encoding:
        """Buffers as they are, anything else with setBytes:; None is skipped."""
        for index, argument in enumerate(arguments):
            if isinstance(argument, metal.Buffer):
                self.encoder.set_buffer(argument, 0, index)
            elif argument is not None:
                self.encoder.set_bytes(np.asarray(argument), index)
        return self

    def dispatch(self, grid: Any = 1, group: Any = 1) -> Encoding:
        size = [(s, 1, 1) if isinstance(s, int) else (*s, 1, 1)[:3] for s in (grid, group)]
        self.encoder.dispatch_threads(*size)
        return self

    def commit(self) -> metal.CommandBuffer:
        self.encoder.end_encoding()
        self.commands.commit()
        return self.commands

    def finish(self) -> metal.CommandBuffer:
        """Run it; raises the command buffer's error."""
        commands = self.commit()
        commands.wait_until_completed()
        if commands.error is not None:
            raise commands.error
        return commands

    def abandon(self) -> None:
        """End an encoder that was only made to be misused."""
        self.encoder.end_encoding()


@pytest.fixture(scope="session")
def host() -> Host:
    return Host()


@pytest.fixture(autouse=True)
def _fresh_counters() -> None:
    metal.reset_counters()


@pytest.fixture(scope="session")
def line() -> Any:
    """line("text"): where that line of SOURCE is."""
    return line_of
