"""What the device does when it is used as Metal says."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import numpy as np
import pytest

from mps_ds import softmetal as metal

Status = metal.CommandBufferStatus


# ---- buffers ------------------------------------------------------------------------------------


def test_buffer_contents_and_address_are_two_views_of_the_same_bytes(host: Any) -> None:
    buffer = host.buffer(np.arange(5, dtype=np.float32), "five")
    assert (buffer.length, buffer.label) == (20, "five")
    assert buffer.gpu_address != buffer.contents_address
    host.encoder("add_one").bind(buffer).dispatch(5, 5).finish()
    assert metal.array(buffer, np.float32).tolist() == [1, 2, 3, 4, 5]
    metal.array(buffer, np.float32)[2] = 10
    host.encoder("add_one").bind(buffer).dispatch(5, 5).finish()
    assert metal.array(buffer, np.float32).tolist() == [2, 3, 11, 5, 6]


def test_buffers_have_distinct_aligned_addresses(host: Any) -> None:
    buffers = [host.device.new_buffer_with_length(n) for n in (1, 4, 4095, 4096, 4097, 1 << 20)]
    ranges = sorted((b.gpu_address, b.gpu_address + b.length) for b in buffers)
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(ranges))
    assert all(b.gpu_address % 16 == 0 for b in buffers)


def test_private_storage_has_no_contents(host: Any) -> None:
    private = host.device.new_buffer_with_length(64, metal.STORAGE_PRIVATE)
    assert private.storage_mode == metal.StorageMode.PRIVATE
    assert not private.has_contents
    with pytest.raises(BufferError):
        np.frombuffer(private, np.uint8)


def test_private_storage_is_used_by_kernels(host: Any) -> None:
    private = host.device.new_buffer_with_length(16, metal.STORAGE_PRIVATE)
    out = host.floats(1)
    host.encoder("poke").bind(private, np.int32(3)).dispatch().finish()
    host.encoder("peek").bind(private, np.int32(3), out).dispatch().finish()
    assert metal.array(out, np.float32)[0] == 1


def test_no_copy_buffer_is_the_hosts_memory(host: Any) -> None:
    import mmap

    pages = mmap.mmap(-1, mmap.PAGESIZE)
    data = np.frombuffer(pages, np.float32)
    data[:] = 1
    buffer = host.device.new_buffer_with_bytes_no_copy(pages)
    host.encoder("add_one").bind(buffer).dispatch(8, 8).finish()
    assert data[:9].tolist() == [2] * 8 + [1]
    del data
    with pytest.raises(BufferError):  # the buffer still uses the memory
        pages.close()
    del buffer  # runs the deallocator
    pages.close()


def test_released_memory_is_used_again(host: Any) -> None:
    before = host.device.current_allocated_size
    for _ in range(200):
        buffer = host.device.new_buffer_with_length(64 << 20)
        metal.array(buffer, np.uint8)[:: 1 << 20] = 1
        assert host.device.current_allocated_size == before + (64 << 20)
        del buffer
    assert host.device.current_allocated_size == before
    assert metal.trim() >= 64 << 20
    assert metal.trim() == 0


def test_more_than_maxBufferLength_gives_no_buffer(host: Any) -> None:
    with pytest.raises(MemoryError):
        host.device.new_buffer_with_length(host.device.max_buffer_length + 1)


def test_thousands_of_buffers_cost_no_file_descriptors(host: Any) -> None:
    import os

    fds = len(os.listdir("/proc/self/fd"))
    buffers = [host.floats(3, value=k) for k in range(5000)]
    assert len(os.listdir("/proc/self/fd")) == fds
    rows = host.buffer(host.rows(buffers))
    sums = host.floats(len(buffers))
    e = host.encoder("sum_rows").bind(rows, sums)
    e.encoder.use_resources(buffers, metal.USAGE_READ)
    e.dispatch(len(buffers), 64).finish()
    assert metal.array(sums, np.float32).tolist() == [3.0 * k for k in range(5000)]


# ---- libraries, functions, pipelines ------------------------------------------------------------


def test_library_lists_its_functions(host: Any) -> None:
    assert {"add_one", "saxpy", "scale_rows"} <= set(host.library.function_names)
    assert host.library.new_function_with_name("no_such") is None


def test_compile_error_is_an_NSError_with_the_compilers_text(host: Any) -> None:
    source = "#include <metal_stdlib>\nusing namespace metal;\nkernel void k() { nonsense; }\n"
    with pytest.raises(metal.MetalError, match=r"program_source:3.*nonsense") as failure:
        host.device.new_library_with_source(source, metal.precise_options())
    assert failure.value.domain == "MTLLibraryErrorDomain"
    assert failure.value.code == metal.LibraryError.COMPILE_FAILURE


def test_preprocessor_macros_reach_the_source(host: Any) -> None:
    source = "kernel void k(device int* x [[buffer(0)]]) { *x = VALUE; }\n"
    for value in (3, 4):
        x = np.zeros(1, np.int32)
        metal.run(source, "k", [x], 1, options=metal.precise_options(macros={"VALUE": value}))
        assert x[0] == value


def test_the_same_source_is_compiled_at_most_once(host: Any) -> None:
    source = "kernel void once(device int* x [[buffer(0)]]) { *x = 1; }"
    for _ in range(3):
        host.device.new_library_with_source(source, metal.precise_options())
    assert metal.counters()["libraries_compiled"] <= 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 3),
        ({0: np.float32(2)}, 6),
        ({"negate": np.bool_(True)}, -3),
        ({"factor": np.float32(4), 1: np.bool_(True)}, -12),
    ],
)
def test_function_constants(host: Any, given: Any, expected: float) -> None:
    function = host.library.new_function_with_name("constants", metal.constants(given))
    pipeline = host.device.new_compute_pipeline_state_with_function(function)
    x = host.floats(1, value=3)
    e = host.encoder().bind(x)
    e.encoder.set_compute_pipeline_state(pipeline)
    e.dispatch().finish()
    assert metal.array(x, np.float32)[0] == expected


def test_function_constants_belong_to_a_pipeline_not_to_the_library(host: Any) -> None:
    def pipeline(values: Any) -> metal.ComputePipelineState:
        function = host.library.new_function_with_name("constants", metal.constants(values))
        return host.device.new_compute_pipeline_state_with_function(function)

    two, none, three = (pipeline(v) for v in ({0: np.float32(2)}, {}, {0: np.float32(3)}))
    x = host.floats(1, value=1)
    e = host.encoder().bind(x)
    for state in (two, none, three, none, two):
        e.encoder.set_compute_pipeline_state(state)
        e.dispatch()
    e.finish()
    assert metal.array(x, np.float32)[0] == 12


def test_a_constant_of_another_type_is_an_error(host: Any) -> None:
    with pytest.raises(metal.MetalError, match=r"'factor' \(index 0\) is float.* set as half"):
        host.library.new_function_with_name("constants", metal.constants({0: np.float16(2)}))
    with pytest.raises(metal.MetalError, match="no function named 'absent'") as failure:
        host.library.new_function_with_name("absent", metal.constants({}))
    assert failure.value.code == metal.LibraryError.FUNCTION_NOT_FOUND


def test_pipeline_reports_its_limits(host: Any) -> None:
    assert host.pipeline("add_one").max_total_threads_per_threadgroup == 1024
    assert host.pipeline("limited").max_total_threads_per_threadgroup == 256
    assert host.pipeline("add_one").thread_execution_width == 32


def test_pipeline_from_a_descriptor(host: Any) -> None:
    descriptor = metal.ComputePipelineDescriptor()
    descriptor.set_compute_function(host.library.new_function_with_name("add_one"))
    descriptor.max_total_threads_per_threadgroup = 128
    descriptor.label = "narrow"
    pipeline = host.device.new_compute_pipeline_state_with_descriptor(descriptor)
    assert (pipeline.max_total_threads_per_threadgroup, pipeline.label) == (128, "narrow")


def test_compile_options_have_apples_defaults_and_one_math_mode() -> None:
    options = metal.CompileOptions()
    assert options.math_mode == metal.MathMode.FAST
    assert options.math_floating_point_functions == metal.MathFloatingPointFunctions.FAST
    assert options.fast_math_enabled
    options.fast_math_enabled = False
    assert options.math_mode == metal.MathMode.SAFE
    options.math_mode = metal.MathMode.RELAXED
    assert not options.fast_math_enabled


# ---- execution ----------------------------------------------------------------------------------


def test_nothing_runs_before_commit(host: Any) -> None:
    x = host.floats(4)
    e = host.encoder("add_one").bind(x).dispatch(4, 4)
    assert e.commands.status == Status.NOT_ENQUEUED
    e.encoder.end_encoding()
    assert metal.array(x, np.float32).tolist() == [0] * 4
    e.commands.commit()
    e.commands.wait_until_completed()
    assert e.commands.status == Status.COMPLETED
    assert e.commands.gpu_end_time >= e.commands.gpu_start_time > 0
    assert metal.array(x, np.float32).tolist() == [1] * 4


def test_command_buffers_run_in_the_order_of_commit(host: Any) -> None:
    x = host.buffer(np.ones(1, np.uint32))
    expected = 1
    for k in range(40):
        last = host.encoder("step").bind(x, np.uint32(k)).dispatch().commit()
        expected = (expected * 3 + k) % 2**32
    last.wait_until_completed()
    assert metal.array(x, np.uint32)[0] == expected


def test_enqueue_reserves_a_place_in_the_order(host: Any) -> None:
    x = host.buffer(np.ones(1, np.uint32))
    first = host.encoder("step").bind(x, np.uint32(1)).dispatch()
    second = host.encoder("step").bind(x, np.uint32(2)).dispatch()
    first.commands.enqueue()
    second.commit()
    assert first.commands.status == Status.ENQUEUED
    assert second.commands.status in (Status.COMMITTED, Status.SCHEDULED)
    first.commit()
    second.commands.wait_until_completed()
    assert metal.array(x, np.uint32)[0] == (1 * 3 + 1) * 3 + 2


def test_state_of_an_encoder_stays_from_dispatch_to_dispatch(host: Any) -> None:
    x, y = host.floats(4, value=1), host.floats(4)
    e = host.encoder("add_one").bind(x).dispatch(4, 4)
    e.encoder.set_compute_pipeline_state(host.pipeline("saxpy"))
    e.encoder.set_buffer(y, 0, 1)
    e.encoder.set_bytes(np.float32(2), 2)
    e.dispatch(4, 4)  # buffer 0 is still x: a stale binding is used, as on a Mac
    e.finish()
    assert metal.array(x, np.float32).tolist() == [2] * 4


def test_bytes_are_copied_when_set(host: Any) -> None:
    x, k = host.buffer(np.ones(1, np.uint32)), np.array([5], np.uint32)
    e = host.encoder("step").bind(x, k)
    k[0] = 99
    e.dispatch().finish()
    assert metal.array(x, np.uint32)[0] == 8


def test_views_are_buffers_with_an_offset(host: Any) -> None:
    x = host.floats(8)
    e = host.encoder("add_one")
    e.encoder.set_buffer(x, 12, 0)
    e.dispatch(3, 3)
    e.encoder.set_buffer_offset(20, 0)
    e.dispatch(3, 3).finish()
    assert metal.array(x, np.float32).tolist() == [0, 0, 0, 1, 1, 2, 1, 1]


def test_setting_none_unbinds(host: Any) -> None:
    e = host.encoder("add_one").bind(host.floats(1))
    e.encoder.set_buffer(None, 0, 0)
    with pytest.raises(metal.ValidationError, match="has no buffer or bytes set"):
        e.dispatch()
    e.abandon()


@pytest.mark.parametrize("grid", [(1, 1, 1), (33, 1, 1), (7, 5, 3), (64, 2, 1)])
def test_grids_that_are_no_multiple_of_the_threadgroup(host: Any, grid: Any) -> None:
    n = int(np.prod(grid))
    source = """#include <metal_stdlib>
using namespace metal;
kernel void mark(device uint* x [[buffer(0)]], uint3 at [[thread_position_in_grid]],
                 uint3 size [[threads_per_grid]]) {
  x[(at.z * size.y + at.y) * size.x + at.x] += 1;
}
"""
    marks = np.zeros(n, np.uint32)
    metal.run(source, "mark", [marks], grid, (4, 2, 2))
    assert marks.tolist() == [1] * n


def test_threadgroup_memory_and_barriers(host: Any) -> None:
    x = host.buffer(np.arange(100, dtype=np.float32))
    e = host.encoder("shared_sum").bind(x)
    e.encoder.set_threadgroup_memory_length(400, 0)
    e.dispatch(100, 100).finish()
    assert metal.array(x, np.float32).tolist() == [4950] * 100


def test_bindless_table(host: Any) -> None:
    buffers = [host.floats(n, f"row {n}", value=n) for n in (1, 3, 1000)]
    e = host.encoder("scale_rows").bind(host.buffer(host.rows(buffers)), np.float32(2))
    e.encoder.use_resources(buffers, metal.USAGE_READ | metal.USAGE_WRITE)
    e.dispatch((1000, 3), (32, 1)).finish()
    for n, buffer in zip((1, 3, 1000), buffers, strict=True):
        assert metal.array(buffer, np.float32).tolist() == [2 * n] * n


def test_bindless_views_into_one_buffer(host: Any) -> None:
    buffer = host.floats(10, value=1)
    e = host.encoder("scale_rows")
    e.bind(host.buffer(host.rows([buffer], [12])), np.float32(5))
    e.encoder.use_resource(buffer, metal.USAGE_READ | metal.USAGE_WRITE)
    e.dispatch((10, 1), (10, 1)).finish()
    assert metal.array(buffer, np.float32).tolist() == [1] * 3 + [5] * 7


# ---- handlers and lifetime ----------------------------------------------------------------------


def test_handlers_run_once_in_order_before_the_wait_returns(host: Any) -> None:
    calls: list[Any] = []
    x = host.floats(1)
    e = host.encoder("add_one").bind(x).dispatch()
    e.commands.add_scheduled_handler(lambda c: calls.append(("scheduled", c.status)))
    e.commands.add_completed_handler(lambda c: calls.append(("first", c.status)))
    e.commands.add_completed_handler(
        lambda c: calls.append(("second", metal.array(x, np.float32)[0]))
    )
    e.finish()
    assert calls == [("scheduled", Status.SCHEDULED), ("first", Status.COMPLETED), ("second", 1)]


def test_handlers_also_run_when_a_kernel_failed(host: Any) -> None:
    seen: list[Any] = []
    e = host.encoder("poke").bind(host.floats(1), np.int32(5000)).dispatch()
    e.commands.add_completed_handler(lambda c: seen.append((c.status, c.error is not None)))
    with pytest.raises(metal.MetalError):
        e.finish()
    assert seen == [(Status.ERROR, True)]


def test_a_bound_buffer_lives_until_the_command_buffer_completed(host: Any) -> None:
    before = host.device.current_allocated_size
    x, out = host.floats(1, value=4), host.floats(1)
    e = host.encoder("peek").bind(x, np.int32(0), out).dispatch()
    del x
    assert host.device.current_allocated_size == before + 8
    e.finish()
    assert metal.array(out, np.float32)[0] == 4
    assert host.device.current_allocated_size == before + 4


def test_a_completed_handler_keeps_table_only_buffers(host: Any) -> None:
    row, sums = host.floats(3, value=2), host.floats(1)
    e = host.encoder("sum_rows").bind(host.buffer(host.rows([row])), sums)
    e.encoder.use_resource(row, metal.USAGE_READ)
    e.dispatch()
    held = [row]
    e.commands.add_completed_handler(lambda _: held.clear())
    del row
    e.finish()
    assert (metal.array(sums, np.float32)[0], held) == (6, [])


def test_the_device_is_usable_after_a_failed_command_buffer(host: Any) -> None:
    x = host.floats(1)
    with pytest.raises(metal.MetalError):
        host.encoder("poke").bind(x, np.int32(100000)).dispatch().finish()
    host.encoder("add_one").bind(x).dispatch().finish()
    assert metal.array(x, np.float32)[0] == 1


def test_what_follows_a_failure_in_the_same_command_buffer_does_not_run(host: Any) -> None:
    x = host.floats(1)
    e = host.encoder("poke").bind(x, np.int32(100000)).dispatch()
    e.encoder.set_compute_pipeline_state(host.pipeline("add_one"))
    with pytest.raises(metal.MetalError):
        e.dispatch().finish()
    assert metal.array(x, np.float32)[0] == 0


# ---- concurrent encoders ------------------------------------------------------------------------


def _two_steps(host: Any, concurrent: bool, barrier: bool) -> int:
    x = host.buffer(np.ones(1, np.uint32))
    e = host.encoder("step", concurrent=concurrent).bind(x, np.uint32(1)).dispatch()
    if barrier:
        e.encoder.memory_barrier()
    e.encoder.set_bytes(np.uint32(2), 1)
    e.dispatch().finish()
    return int(metal.array(x, np.uint32)[0])


def test_a_concurrent_encoder_without_a_barrier_shows_it(host: Any) -> None:
    in_order = (1 * 3 + 1) * 3 + 2
    assert _two_steps(host, concurrent=False, barrier=False) == in_order
    assert _two_steps(host, concurrent=True, barrier=True) == in_order
    assert _two_steps(host, concurrent=True, barrier=False) == (1 * 3 + 2) * 3 + 1


# ---- threads ------------------------------------------------------------------------------------


def test_several_threads_create_buffers_and_encode_at_once(host: Any) -> None:
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            queue = host.device.new_command_queue()
            for k in range(30):
                n = 1 + (seed * 37 + k * 11) % 300
                x, y = host.floats(n, value=seed), host.floats(n, value=k)
                commands = (queue if k % 2 else host.queue).command_buffer()
                encoder = commands.compute_command_encoder()
                encoder.set_compute_pipeline_state(host.pipeline("saxpy"))
                encoder.set_buffer(y, 0, 0)
                encoder.set_buffer(x, 0, 1)
                encoder.set_bytes(np.float32(2), 2)
                encoder.dispatch_threads((n, 1, 1), (32, 1, 1))
                encoder.end_encoding()
                commands.commit()
                commands.wait_until_completed()
                assert commands.error is None, commands.error
                assert metal.array(y, np.float32).tolist() == [k + 2.0 * seed] * n
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
