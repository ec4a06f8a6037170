"""What goes wrong in a kernel is the error of its command buffer, with kernel, buffer and line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mps_ds import softmetal as metal

READ, WRITE = metal.USAGE_READ, metal.USAGE_WRITE
Code = metal.CommandBufferError


def failure(encoding: Any, *texts: str, code: Any = Code.PAGE_FAULT) -> str:
    """Runs it and returns the error's text, which holds each of `texts`."""
    with pytest.raises(metal.MetalError) as error:
        encoding.finish()
    assert error.value.domain == "MTLCommandBufferErrorDomain"
    assert error.value.code == code
    assert encoding.commands.status == metal.CommandBufferStatus.ERROR
    for text in texts:
        assert text in str(error.value)
    return str(error.value)


# ---- residency ----------------------------------------------------------------------------------


def test_missing_useResource(host: Any, line: Any) -> None:
    rows = [host.floats(4, "declared"), host.floats(6, "forgotten")]
    e = host.encoder("scale_rows").bind(host.buffer(host.rows(rows)), np.float32(2))
    e.encoder.use_resource(rows[0], READ | WRITE)
    e.dispatch((4, 2), (4, 1))
    failure(
        e,
        "kernel 'scale_rows': read at byte offset 0 of buffer 'forgotten' (24 bytes), which is "
        "neither bound nor declared with useResource:usage:",
        "in threadgroup (0, 1, 0)",
        line("row.data[at.x] *= a"),
    )


def test_missing_useResource_after_a_correct_dispatch_of_the_same_buffer(host: Any) -> None:
    row = host.floats(4, "row")
    table = host.buffer(host.rows([row]))
    good = host.encoder("scale_rows").bind(table, np.float32(2))
    good.encoder.use_resource(row, READ | WRITE)
    good.dispatch(4, 4).finish()
    failure(host.encoder("scale_rows").bind(table, np.float32(2)).dispatch(4, 4), "buffer 'row'")

    bound = host.encoder("add_one").bind(row).dispatch(4, 4)  # bound, then only in the table
    bound.finish()
    failure(host.encoder("scale_rows").bind(table, np.float32(2)).dispatch(4, 4), "buffer 'row'")


def test_useResource_is_for_one_encoder(host: Any) -> None:
    row = host.floats(4, "row")
    table = host.buffer(host.rows([row]))
    e = host.encoder("scale_rows").bind(table, np.float32(2))
    e.encoder.use_resource(row, READ | WRITE)
    e.dispatch(4, 4).encoder.end_encoding()
    e.encoder = e.commands.compute_command_encoder()
    e.encoder.set_compute_pipeline_state(host.pipeline("scale_rows"))
    failure(e.bind(table, np.float32(2)).dispatch(4, 4), "neither bound nor declared")


def test_useResource_after_the_dispatch_is_too_late(host: Any) -> None:
    row = host.floats(4, "row")
    e = host.encoder("scale_rows").bind(host.buffer(host.rows([row])), np.float32(2)).dispatch(4, 4)
    e.encoder.use_resource(row, READ | WRITE)
    failure(e, "neither bound nor declared")


def test_missing_useResource_on_a_view(host: Any) -> None:
    whole = host.floats(64, "whole")
    e = host.encoder("scale_rows")
    e.bind(host.buffer(host.rows([whole], [100])), np.float32(2)).dispatch(1, 1)
    failure(e, "read at byte offset 100 of buffer 'whole'")


def test_write_to_what_was_declared_for_reading(host: Any, line: Any) -> None:
    row = host.floats(4, "row")
    e = host.encoder("scale_rows").bind(host.buffer(host.rows([row])), np.float32(2))
    e.encoder.use_resource(row, READ)
    failure(
        e.dispatch(4, 4),
        "write at byte offset 0 of buffer 'row' (16 bytes, declared with useResource:), which is "
        "bound or declared for reading only",
        line("row.data[at.x] *= a"),
    )


def test_usages_of_several_declarations_add_up(host: Any) -> None:
    row = host.floats(4, "row", 1)
    e = host.encoder("scale_rows").bind(host.buffer(host.rows([row])), np.float32(2))
    e.encoder.use_resource(row, READ)
    e.encoder.use_resource(row, WRITE)
    e.encoder.use_resource(row, READ)
    e.dispatch(4, 4).finish()
    assert metal.array(row, np.float32).tolist() == [2] * 4


def test_write_through_a_const_argument(host: Any) -> None:
    x = host.floats(4, "x")
    e = host.encoder("peek").bind(x, np.int32(0), host.floats(1)).dispatch()
    e.encoder.set_compute_pipeline_state(host.pipeline("write_through"))
    e.encoder.set_bytes(np.uint64(x.gpu_address), 0)  # x is no argument of this kernel any more
    failure(e.dispatch(), "kernel 'write_through'", "buffer 'x'", "neither bound nor declared")


# ---- lifetime -----------------------------------------------------------------------------------


def test_table_only_buffer_released_before_completion(host: Any) -> None:
    row, sums = host.floats(3, "row"), host.floats(1)
    e = host.encoder("sum_rows").bind(host.buffer(host.rows([row])), sums)
    e.encoder.use_resource(row, READ)
    e.dispatch()
    del row
    others = [host.floats(3) for _ in range(50)]  # must not get its address
    failure(
        e,
        "kernel 'sum_rows': buffer 'row' (12 bytes, declared with useResource:) was released "
        "before the command buffer completed (useResource: makes it resident but does not retain",
        code=Code.INVALID_RESOURCE,
    )
    del others


def test_bound_buffer_released_under_an_unretaining_command_buffer(host: Any) -> None:
    commands = host.queue.command_buffer_with_unretained_references()
    assert not commands.retained_references
    encoder = commands.compute_command_encoder()
    encoder.set_compute_pipeline_state(host.pipeline("add_one"))
    x = host.floats(1, "x")
    encoder.set_buffer(x, 0, 0)
    encoder.dispatch_threads((1, 1, 1), (1, 1, 1))
    encoder.end_encoding()
    del x
    commands.commit()
    commands.wait_until_completed()
    assert "'x'" in str(commands.error)
    assert "commandBufferWithUnretainedReferences" in str(commands.error)


def test_released_buffer_that_nobody_declared(host: Any) -> None:
    row, sums = host.floats(3, "row"), host.floats(1)
    e = host.encoder("sum_rows").bind(host.buffer(host.rows([row])), sums).dispatch()
    del row
    failure(e, "kernel 'sum_rows': read at 0x", "which is in no living buffer: a released one")


def test_stale_address_of_a_released_buffer_next_to_a_living_one(host: Any) -> None:
    keep, row = host.floats(3, "keep"), host.floats(3, "row")
    table = host.buffer(host.rows([row]))
    del row
    e = host.encoder("sum_rows").bind(table, host.floats(1))
    e.encoder.use_resource(keep, READ)
    failure(e.dispatch())


# ---- bounds -------------------------------------------------------------------------------------

SIZES = [1, 4, 5, 1023, 1024, 1025, 300_000]


@pytest.mark.parametrize("n", SIZES)
def test_write_and_read_past_the_end(host: Any, line: Any, n: int) -> None:
    with metal.changed_settings(alignment=4):
        x = host.floats(n, "x")
        out = host.floats(1)
    end = f"byte offset {4 * n} of buffer 'x' ({4 * n} bytes, argument 'x' at index 0)"
    e = host.encoder("poke").bind(x, np.int32(n)).dispatch()
    failure(e, f"kernel 'poke': out-of-bounds write at {end}", line("x[where] = 1;"))
    e = host.encoder("peek").bind(x, np.int32(n), out).dispatch()
    failure(e, f"kernel 'peek': out-of-bounds read at {end}")
    host.encoder("poke").bind(x, np.int32(n - 1)).dispatch().finish()


@pytest.mark.parametrize("n", SIZES)
def test_write_and_read_before_the_start(host: Any, line: Any, n: int) -> None:
    with metal.changed_settings(guard=metal.Guard.FRONT):
        x = host.floats(n, "x")
        out = host.floats(1)
    start = f"byte offset -4 of buffer 'x' ({4 * n} bytes"
    e = host.encoder("poke").bind(x, np.int32(-1)).dispatch()
    failure(e, f"out-of-bounds write at {start}", line("x[where] = 1;"))
    e = host.encoder("peek").bind(x, np.int32(-1), out).dispatch()
    failure(e, f"out-of-bounds read at {start}")


@pytest.mark.parametrize("where", [-1, -64, 5, 7])
def test_writes_beside_a_buffer_that_no_page_guards_are_seen_afterwards(
    host: Any, where: int
) -> None:
    x = host.floats(5, "x")  # 20 bytes, padded to 32, at the end of a page
    e = host.encoder("poke").bind(x, np.int32(where)).dispatch()
    failure(
        e,
        f"kernel 'poke': out-of-bounds write at byte offset {4 * where} of buffer 'x' (20 bytes, "
        "argument 'x' at index 0), seen after the dispatch",
    )
    host.encoder("poke").bind(x, np.int32(0)).dispatch().finish()  # repaired, reported once


def test_reads_beside_a_buffer_that_no_page_guards_give_nan(host: Any) -> None:
    x, out = host.floats(5), host.floats(1)
    host.encoder("peek").bind(x, np.int32(-1), out).dispatch().finish()
    assert np.isnan(metal.array(out, np.float32)[0])


def test_far_out_of_bounds(host: Any) -> None:
    x = host.floats(4, "x")
    failure(host.encoder("poke").bind(x, np.int32(3000)).dispatch(), "out-of-bounds", "buffer 'x'")
    failure(host.encoder("poke").bind(x, np.int32(2_000_000_000)).dispatch(), "write at 0x")


def test_offset_of_a_bound_view_is_in_the_message(host: Any) -> None:
    x = host.floats(8, "x")
    e = host.encoder("poke")
    e.encoder.set_buffer(x, 16, 0)
    e.encoder.set_bytes(np.int32(4), 1)
    failure(e.dispatch(), "byte offset 32 of buffer 'x'", "at index 0 bound at offset 16")


def test_past_the_end_of_setBytes_data(host: Any) -> None:
    out = host.floats(1)
    e = host.encoder("peek_bytes").bind(np.arange(3, dtype=np.float32), np.int32(2), out).dispatch()
    e.finish()
    assert metal.array(out, np.float32)[0] == 2
    e = host.encoder("peek_bytes").bind(np.arange(3, dtype=np.float32), np.int32(3), out).dispatch()
    failure(e, "out-of-bounds read at byte offset 12 of buffer 'setBytes: data of 'x''")


def test_unlabelled_buffers_are_named_by_their_argument(host: Any) -> None:
    e = host.encoder("poke").bind(host.floats(4), np.int32(4)).dispatch()
    failure(e, "of an unlabelled buffer (16 bytes, argument 'x' at index 0)")


def test_index_of_a_thread_array() -> None:
    source = """#include <metal_stdlib>
using namespace metal;
kernel void k(device float* x [[buffer(0)]], constant int& i [[buffer(1)]]) {
  float a[4] = {1, 2, 3, 4};
  a[i] = x[0];
  x[0] = a[0] + a[3];
}
"""
    metal.run(source, "k", [np.zeros(1, np.float32), np.int32(3)], 1)
    for index in (4, -1):
        with pytest.raises(metal.MetalError, match=r"index.*out of bounds") as error:
            metal.run(source, "k", [np.zeros(1, np.float32), np.int32(index)], 1)
        assert "kernel 'k'" in str(error.value)
        assert "program_source:5:" in str(error.value)


def test_index_of_a_threadgroup_array() -> None:
    source = """#include <metal_stdlib>
using namespace metal;
kernel void k(device float* x [[buffer(0)]], constant int& i [[buffer(1)]]) {
  threadgroup float a[4];
  a[i] = x[0];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  x[0] = a[0];
}
"""
    metal.run(source, "k", [np.zeros(1, np.float32), np.int32(3)], 1)
    with pytest.raises(metal.MetalError, match=r"index.*out of bounds") as error:
        metal.run(source, "k", [np.zeros(1, np.float32), np.int32(4)], 1)
    assert "program_source:5:" in str(error.value)


# ---- wild pointers and others -------------------------------------------------------------------


def test_contents_pointer_in_a_kernel(host: Any) -> None:
    x, out = host.floats(4, "x"), host.floats(1)
    with metal.changed_settings(hide_contents=True):
        e = host.encoder("through").bind(np.uint64(x.contents_address + 4), out).dispatch()
        failure(
            e,
            "kernel 'through': read at byte offset 4 of buffer 'x' (16 bytes) through its CPU "
            "address (contents); kernels need gpuAddress",
        )
        e = host.encoder("through").bind(np.uint64(x.gpu_address + 4), out)
        e.encoder.use_resource(x, READ)
        e.dispatch().finish()


def test_the_host_waits_where_contents_are_hidden(host: Any) -> None:
    x, y = host.floats(1 << 20), host.floats(1)
    with metal.changed_settings(hide_contents=True):
        for k in range(20):
            commands = host.encoder("add_one").bind(x).dispatch(1 << 20, 256).commit()
            contents = metal.array(y, np.float32)
            while commands.status not in (
                metal.CommandBufferStatus.COMPLETED,
                metal.CommandBufferStatus.ERROR,
            ):
                contents[0] += 1
            commands.wait_until_completed()
            assert commands.error is None
            assert metal.array(x, np.float32)[-1] == k + 1


def test_null_wild_and_misaligned_pointers(host: Any) -> None:
    out = host.floats(1)
    run = lambda address: host.encoder("through").bind(np.uint64(address), out).dispatch()  # noqa: E731
    failure(run(0), "kernel 'through': read through a null pointer")
    failure(run(8), "null pointer (0x8)")
    failure(run(0x10000), "read at 0x10000, which is in no buffer")
    failure(run(0xDEAD_BEEF_DEAD_BEE0), "wild pointer")
    failure(run(out.gpu_address + 2), "misaligned", code=Code.INTERNAL)


def test_a_bytesNoCopy_buffer_must_not_be_released_either(host: Any) -> None:
    import mmap

    pages = mmap.mmap(-1, mmap.PAGESIZE)
    buffer = host.device.new_buffer_with_bytes_no_copy(pages)
    buffer.label = "pages"
    e = host.encoder("sum_rows").bind(host.buffer(host.rows([buffer])), host.floats(1))
    e.encoder.use_resource(buffer, READ)
    e.dispatch()
    del buffer
    failure(e, "buffer 'pages'", "was released before", code=Code.INVALID_RESOURCE)


def test_integer_division_by_zero(host: Any, line: Any) -> None:
    e = host.encoder("divide").bind(host.buffer(np.int32([6])), np.int32(0)).dispatch()
    failure(e, "kernel 'divide':", "division by zero", line("x[0] / by"), code=Code.INTERNAL)


def test_stack_overflow_of_a_thread() -> None:
    source = """#include <metal_stdlib>
using namespace metal;
kernel void k(device float* x [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  float a[200000];
  for (int k = 0; k < 200000; ++k) a[k] = x[0] + k;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  x[0] = a[int(x[0]) + i];
}
"""
    with pytest.raises(metal.MetalError, match="used more private memory than it has") as error:
        metal.run(source, "k", [np.zeros(1, np.float32)], 32)
    assert error.value.code == Code.STACK_OVERFLOW


# ---- divergence ---------------------------------------------------------------------------------

DIVERGENT = """#include <metal_stdlib>
using namespace metal;
#define X device float* x [[buffer(0)]]
#define I uint i [[thread_position_in_threadgroup]]
kernel void barrier_in_a_branch(X, I) {
  if (i < 8) threadgroup_barrier(mem_flags::mem_threadgroup);
  x[i] = simd_sum(x[i]);
}
kernel void early_return(X, I) {
  if (i > 20) return;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  x[i] += 1;
}
kernel void different_operations(X, I) {
  x[i] = (i & 1) ? simd_sum(x[i]) : simd_max(x[i]);
}
"""


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        ("barrier_in_a_branch", "barrier"),
        ("early_return", "threadgroup_barrier was not reached by every thread"),
        ("different_operations", "diverge"),
    ],
)
def test_divergent_synchronisation(kernel: str, text: str) -> None:
    with pytest.raises(metal.MetalError) as error:
        metal.run(DIVERGENT, kernel, [np.ones(64, np.float32)], 64, 64)
    assert f"kernel '{kernel}'" in str(error.value)
    assert text in str(error.value)
    assert error.value.code == Code.INTERNAL


def test_early_return_is_allowed_when_not_strict() -> None:
    x = np.ones(64, np.float32)
    with metal.changed_settings(strict=False):
        metal.run(DIVERGENT, "early_return", [x], 64, 64)
    assert x.tolist() == [2] * 21 + [1] * 43


# ---- what the compiler refuses ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("constant float& x [[buffer(0)]]", "const"),
        ("device double* x [[buffer(0)]]", "double"),
    ],
)
def test_write_to_constant_and_double_do_not_compile(body: str, text: str) -> None:
    source = (
        f"#include <metal_stdlib>\nusing namespace metal;\nkernel void k({body}) {{\n  x = 0;\n}}\n"
    )
    with pytest.raises(metal.MetalError, match=text) as error:
        metal.Device().new_library_with_source(source, metal.precise_options())
    assert "program_source:" in str(error.value)
