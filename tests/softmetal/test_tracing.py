"""The tracing build: bytes and widths of accesses, by kernel and buffer, and bounds to the byte."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mps_ds import softmetal as metal

HEADER = "#include <metal_stdlib>\nusing namespace metal;\n"

# type: (bytes of an element, width of its access)
COPIED = {
    "uchar": (1, 1),
    "bool": (1, 1),
    "half": (2, 2),
    "bfloat": (2, 2),
    "float": (4, 4),
    "ulong": (8, 8),
    "uchar4": (4, 4),
    "half2": (4, 4),
    "half4": (8, 8),
    "bfloat4": (8, 8),
    "float2": (8, 8),
    "float4": (16, 16),
    "uint4": (16, 16),
    "long4": (32, 32),
    "packed_float4": (16, 4),
    "Pair": (8, 4),
}
KERNELS = (
    HEADER
    + "struct Pair { float a, b; };\n"
    + "\n".join(
        f"kernel void copy_{t}(device const {t}* from [[buffer(0)]], device {t}* to [[buffer(1)]],"
        f" uint i [[thread_position_in_grid]]) {{ {t} value = from[i]; to[i] = value; }}"
        for t in COPIED
    )
    + """
struct Row { device float* data; ulong length; };
kernel void scale_rows(device const Row* rows [[buffer(0)]], constant float& a [[buffer(1)]],
                       uint2 at [[thread_position_in_grid]]) {
  Row row = rows[at.y];
  if (at.x < row.length) row.data[at.x] *= a;
}
kernel void scalar_loop(device float* to [[buffer(0)]], device const float* from [[buffer(1)]],
                        constant uint& n [[buffer(2)]]) {
  for (uint i = 0; i < n; ++i) to[i] = from[i];
}
kernel void clear_loop(device float* to [[buffer(0)]], constant uint& n [[buffer(1)]]) {
  for (uint i = 0; i < n; ++i) to[i] = 0;
}
kernel void atomics(device atomic_uint* x [[buffer(0)]], device uint* y [[buffer(1)]],
                    uint i [[thread_position_in_grid]]) {
  atomic_store_explicit(&x[1], 1u, memory_order_relaxed);
  atomic_fetch_add_explicit(&x[0], 1u, memory_order_relaxed);
  y[i] = atomic_load_explicit(&x[2], memory_order_relaxed);
}
kernel void shared(device float* x [[buffer(0)]], threadgroup float* scratch [[threadgroup(0)]],
                   uint i [[thread_position_in_threadgroup]]) {
  threadgroup float2 twice[32];
  scratch[i] = x[i];
  twice[i] = float2(x[i]);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  x[i] = scratch[31 - i] + twice[31 - i].x;
}
kernel void same(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                 uint i [[thread_position_in_grid]]) {
  y[i] = x[0] + x[1];
}
kernel void poke(device float* x [[buffer(0)]], constant int& where [[buffer(1)]]) {
  x[where] = 1;
}
kernel void peek(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                 constant int& where [[buffer(2)]]) {
  y[0] = x[where];
}
kernel void beyond(device float* x [[buffer(0)]], threadgroup float* b [[threadgroup(0)]],
                   constant int& where [[buffer(1)]]) {
  threadgroup float a[4];
  threadgroup float* p = a;
  p[where] = 1;
  b[0] = x[0];
  x[0] = b[0] + p[where];
}
kernel void private_array(device float* x [[buffer(0)]], constant uint& n [[buffer(1)]]) {
  float own[8];
  for (uint i = 0; i < 8; ++i) own[i] = x[i];
  x[0] = own[n];
}
"""
)


def traced(kernel: str, arguments: list[Any], *grid: Any) -> metal.TracedKernel:
    with metal.tracing() as trace:
        metal.run(KERNELS, kernel, arguments, *grid)
    return trace.kernels[kernel]


@pytest.mark.parametrize("type_name", COPIED)
def test_bytes_and_widths_of_a_copy(type_name: str) -> None:
    size, width = COPIED[type_name]
    n = 96
    data = np.zeros(n * size, np.uint8)
    kernel = traced(f"copy_{type_name}", [data, data.copy()], n)
    read, written = kernel.of("from"), kernel.of("to")
    assert (read.bytes_read, read.bytes_written) == (n * size, 0)
    assert (written.bytes_read, written.bytes_written) == (0, n * size)
    assert read.read_widths == written.write_widths == {width: n * size // width}
    assert kernel.device.bytes == kernel.device.distinct == 2 * n * size


@pytest.mark.parametrize("kernel", ["scalar_loop", "clear_loop"])
def test_a_scalar_loop_is_not_seen_as_wide(kernel: str) -> None:
    n = 64
    arrays = [np.zeros(n, np.float32) for _ in range(2 if kernel == "scalar_loop" else 1)]
    result = traced(kernel, [*arrays, np.uint32(n)], 1)
    assert result.of("to").write_widths == {4: n}


def test_distinct_bytes_count_once_a_dispatch() -> None:
    kernel = traced("same", [np.zeros(2, np.float32), np.zeros(100, np.float32)], 100)
    assert (kernel.of("x").bytes, kernel.of("x").distinct) == (800, 8)
    with metal.tracing() as trace:
        for _ in range(3):
            metal.run(KERNELS, "copy_float", [np.zeros(8, np.float32)] * 2, 8)
    kernel = trace.kernels["copy_float"]
    assert (kernel.dispatches, kernel.device.distinct) == (3, 3 * 64)


def test_atomic_operations() -> None:
    kernel = traced("atomics", [np.zeros(3, np.uint32), np.zeros(10, np.uint32)], 10)
    x = kernel.of("x")
    assert (x.atomics, x.bytes_read, x.bytes_written) == (30, 4 * 20, 4 * 20)
    assert kernel.of("y").atomics == 0


def test_threadgroup_memory_by_variable() -> None:
    arguments = [np.zeros(32, np.float32), metal.Threadgroup(128)]
    kernel = traced("shared", arguments, 32, 32)
    assert set(kernel.threadgroup) == {"scratch", "twice"}
    assert kernel.threadgroup["scratch"].bytes == 2 * 4 * 32
    assert kernel.threadgroup["twice"].write_widths == {8: 32}
    assert kernel.threadgroup["twice"].read_widths == {4: 32}


def test_private_memory_does_not_count() -> None:
    kernel = traced("private_array", [np.zeros(8, np.float32), np.uint32(3)], 1)
    assert kernel.of("x").bytes == 4 * 9


# ---- names --------------------------------------------------------------------------------------


def test_buffers_of_a_table_are_named_by_where_their_address_was(host: Any) -> None:
    labelled, plain = host.floats(6, "weights"), host.floats(3)
    table = host.buffer(host.rows([labelled, plain]))
    device = metal.Device()
    library = device.new_library_with_source(KERNELS, metal.precise_options())
    function = library.new_function_with_name("scale_rows")
    with metal.tracing() as trace:
        encoding = host.encoder()
        encoding.encoder.set_compute_pipeline_state(
            device.new_compute_pipeline_state_with_function(function)
        )
        encoding.bind(table, np.float32(2))
        encoding.encoder.use_resources([labelled, plain], metal.USAGE_READ | metal.USAGE_WRITE)
        encoding.dispatch((6, 2), (2, 1)).finish()
    kernel = trace.kernels["scale_rows"]
    assert {b.name for b in kernel.buffers} == {"rows", "a", "weights", "rows+16"}
    assert kernel.declared.bytes == 2 * 4 * (6 + 3)
    assert kernel.of("weights", plain).bytes == kernel.declared.bytes
    assert kernel.of(plain).bytes == kernel.of("rows+16").bytes == 2 * 4 * 3
    (weights,) = [b for b in kernel.buffers if b.label == "weights"]
    assert (weights.table, weights.table_offset, weights.argument) == ("rows", 0, "")
    assert (weights.address, weights.length) == (labelled.gpu_address, 24)
    assert kernel.bound.bytes == kernel.device.bytes - kernel.declared.bytes
    assert kernel.of("a").distinct == 4


def test_a_name_that_there_is_not() -> None:
    kernel = traced("copy_float", [np.zeros(8, np.float32)] * 2, 8)
    with pytest.raises(LookupError, match=r"'copy_float' had no buffer 'form'; it had \['argument"):
        kernel.of("form")
    with pytest.raises(TypeError, match="an mps tensor or a name, got float"):
        kernel.of(1.5)
    with pytest.raises(LookupError, match="had no buffer the buffer at 0x"):
        kernel.of(metal.Device().new_buffer_with_length(4))


def test_a_table_for_people() -> None:
    with metal.tracing() as trace:
        metal.run(KERNELS, "shared", [np.zeros(32, np.float32), metal.Threadgroup(128)], 32, 32)
    table = trace.table()
    assert "shared (1 dispatches)" in table
    assert "threadgroup scratch" in table


def test_sums_of_traffic() -> None:
    one = metal.Traffic(reads=1, bytes_read=4, read_widths={4: 1})
    two = metal.Traffic(reads=2, bytes_read=20, read_widths={4: 1, 16: 1})
    both = one + two
    assert (both.reads, both.bytes, both.read_widths) == (3, 24, {4: 2, 16: 1})


# ---- when it is on ------------------------------------------------------------------------------


def test_pipelines_that_exist_take_part_and_results_are_the_same(host: Any) -> None:
    encode = host.encoder("add_one")  # its pipeline is made before
    x = host.floats(4)
    with metal.tracing() as trace:
        encode.bind(x).dispatch(4).finish()
    assert trace.kernels["add_one"].device.bytes == 2 * 16
    host.encoder("add_one").bind(x).dispatch(4).finish()
    assert metal.array(x, np.float32).tolist() == [2] * 4
    assert trace.kernels["add_one"].dispatches == 1  # not what came after


def test_a_block_starts_from_nothing() -> None:
    assert traced("copy_float", [np.zeros(8, np.float32)] * 2, 8).dispatches == 1
    assert traced("copy_float", [np.zeros(8, np.float32)] * 2, 8).dispatches == 1


def test_the_environment_traces_a_process() -> None:
    code = f"""
import numpy as np
from mps_ds import softmetal as metal
metal.run({KERNELS!r}, "copy_float", [np.zeros(8, np.float32)] * 2, 8)
print(metal.Tracing().kernels["copy_float"].device.bytes)
"""
    environment = {**os.environ, "SOFTMETAL_TRACE": "1"}
    out = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert out.stdout.split() == ["64"]


# ---- bounds -------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", [-1, 5, 6])
@pytest.mark.parametrize("kernel", ["poke", "peek"])
@pytest.mark.parametrize("guard", ["BACK", "FRONT"])
def test_a_buffer_is_exact_on_both_sides(kernel: str, where: int, guard: str) -> None:
    words = "read" if kernel == "peek" else "write"
    with metal.changed_settings(guard=getattr(metal.Guard, guard), alignment=16):
        x = metal.Device().new_buffer_with_length(20)  # padded by 12 bytes
        x.label = "five"
        y = [np.zeros(1, np.float32)] if kernel == "peek" else []
        message = f"out-of-bounds {words} at byte offset {4 * where} of buffer 'five' .*program_sou"
        with pytest.raises(metal.MetalError, match=message) as error, metal.tracing():
            metal.run(KERNELS, kernel, [x, *y, np.int32(where)], 1)
    assert error.value.code == metal.CommandBufferError.PAGE_FAULT


@pytest.mark.parametrize("where", [-1, 4, 5, 30])
def test_threadgroup_memory_is_exact(where: int) -> None:
    arguments = [np.zeros(1, np.float32), np.int32(where), metal.Threadgroup(16)]
    message = f"out-of-bounds write of 4 bytes in threadgroup memory, at byte offset {4 * where} of"
    with pytest.raises(metal.MetalError, match=message), metal.tracing():
        metal.run(KERNELS, "beyond", arguments, 1)
    arguments[1] = np.int32(3)
    with metal.tracing():
        metal.run(KERNELS, "beyond", arguments, 1)


# ---- libraries from files -----------------------------------------------------------------------


@pytest.mark.parametrize("trace", [True, False])
def test_a_library_from_a_file_is_traced_if_it_was_made_for_it(tmp_path: Any, trace: bool) -> None:
    source, binary = tmp_path / "copy.metal", tmp_path / "copy.metallib"
    source.write_text(KERNELS)
    mslc = Path(metal.__file__).parent / "mslc"
    options = ["--trace"] if trace else []
    subprocess.run([sys.executable, mslc, *options, "-o", binary, source], check=True)
    device = metal.Device()
    library = device.new_library_with_url(str(binary))
    pipeline = device.new_compute_pipeline_state_with_function(
        library.new_function_with_name("copy_float")
    )

    def copy() -> metal.CommandBuffer:
        commands = device.new_command_queue().command_buffer()
        encoder = commands.compute_command_encoder()
        encoder.set_compute_pipeline_state(pipeline)
        for index in range(2):
            encoder.set_buffer(device.new_buffer_with_length(32), 0, index)
        encoder.dispatch_threads((8, 1, 1), (8, 1, 1))
        encoder.end_encoding()
        commands.commit()
        commands.wait_until_completed()
        return commands

    assert copy().error is None
    with metal.tracing() as tracing:
        error = copy().error
    if trace:
        assert error is None
        assert tracing.kernels["copy_float"].device.bytes == 64
    else:
        assert "'copy_float' has no tracing build: its library was not made from source" in str(
            error
        )
