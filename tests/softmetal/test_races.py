"""The race detector: every planted race is found where it is, its correct twin is clean.

Each kernel is written twice from one text: lines that end in `// racy` are only in the racy one,
those that end in `// right` only in the correct one. `// one` and `// other` mark the two accesses.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from mps_ds import softmetal as metal

HEADER = "#include <metal_stdlib>\nusing namespace metal;\n"
N = 64  # threads of a threadgroup: two simdgroups
ARGUMENTS = """device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    device atomic_uint* count [[buffer(2)]], uint i [[thread_position_in_threadgroup]],
    uint g [[threadgroup_position_in_grid]], uint at [[thread_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]]"""

# name: (memory that the report names, text of the kernel)
PLANTED = {
    "missing_barrier_after_threadgroup_store": (
        "threadgroup memory 's'",
        """
        threadgroup float s[64];
        s[i] = x[at];  // one
        threadgroup_barrier(mem_flags::mem_threadgroup);  // right
        y[at] = s[63 - i];  // other
        """,
    ),
    "barrier_for_the_wrong_memory": (
        "threadgroup memory 's'",
        """
        threadgroup float s[64];
        s[i] = x[at];  // one
        threadgroup_barrier(mem_flags::mem_device);  // racy
        threadgroup_barrier(mem_flags::mem_threadgroup);  // right
        y[at] = s[63 - i];  // other
        """,
    ),
    "barrier_for_no_memory": (
        "threadgroup memory 's'",
        """
        threadgroup float s[64];
        s[i] = x[at];  // one
        threadgroup_barrier(mem_flags::mem_none);  // racy
        threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);  // right
        y[at] = s[63 - i];  // other
        """,
    ),
    "device_memory_behind_a_threadgroup_barrier": (
        "buffer 'y'",
        """
        y[at] = x[at];  // one
        threadgroup_barrier(mem_flags::mem_threadgroup);  // racy
        threadgroup_barrier(mem_flags::mem_device);  // right
        x[at] = y[g * 64 + 63 - i];  // other
        """,
    ),
    "another_threadgroups_result": (
        "buffer 'y'",
        """
        y[at] = 1;  // one
        threadgroup_barrier(mem_flags::mem_device);
        x[at] = y[(at + 64) % 256];  // racy other
        x[at] = y[g * 64 + (i + 1) % 64];  // right
        """,
    ),
    "bfloat_neighbours_as_one_word": (
        "buffer 'y'",
        """
        device ushort* halves = (device ushort*)y;  // right
        halves[at] = ushort(at);  // right
        device uint* words = (device uint*)y;  // racy
        uint shift = at % 2 * 16;  // racy
        words[at / 2] = (words[at / 2] & ~(0xffffu << shift)) | at << shift;  // racy one other
        """,
    ),
    "bytes_beside_a_word": (
        "buffer 'y'",
        """
        device uchar* bytes = (device uchar*)y + g * 256;
        if (i == 0) *(device uint*)bytes = 0;  // one
        else bytes[i + 2] = 1;  // racy other
        else bytes[i + 3] = 1;  // right
        """,
    ),
    "reduction_tree_without_its_barrier": (
        "threadgroup memory 's'",
        """
        threadgroup float s[64];
        s[i] = x[at];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint step = 32; step > 0; step /= 2) {
          if (i < step) s[i] += s[i + step];  // one other
          threadgroup_barrier(mem_flags::mem_threadgroup);  // right
        }
        if (i == 0) y[g] = s[0];
        """,
    ),
    "double_buffer_without_its_barrier": (
        "threadgroup memory 's'",
        """
        threadgroup float s[2][64];
        for (uint k = 0; k < 4; ++k) {
          s[k % 2][i] = x[at] * k;  // one
          threadgroup_barrier(mem_flags::mem_threadgroup);  // right
          y[at] += s[k % 2][63 - i];  // other
        }
        """,
    ),
    "scratch_used_again_too_early": (
        "threadgroup memory 's'",
        """
        threadgroup float s[64];
        for (uint k = 0; k < 3; ++k) {
          s[i] = x[at] * k;  // one
          threadgroup_barrier(mem_flags::mem_threadgroup);
          y[at] += s[63 - i];  // other
          threadgroup_barrier(mem_flags::mem_threadgroup);  // right
        }
        """,
    ),
    "lanes_share_without_a_simdgroup_barrier": (
        "threadgroup memory 's'",
        """
        threadgroup float s[64];
        s[i] = x[at];  // one
        simdgroup_barrier(mem_flags::mem_threadgroup);  // right
        y[at] = s[simd * 32 + 31 - lane];  // other
        """,
    ),
    "simdgroup_barrier_between_simdgroups": (
        "threadgroup memory 's'",
        """
        threadgroup float s[64];
        s[i] = x[at];  // one
        simdgroup_barrier(mem_flags::mem_threadgroup);  // racy
        threadgroup_barrier(mem_flags::mem_threadgroup);  // right
        y[at] = s[(i + 32) % 64];  // other
        """,
    ),
    "simdgroup_barrier_of_half_the_lanes": (
        "threadgroup memory 's'",
        """
        threadgroup float s[64];
        s[i] = x[at];  // one
        if (lane < 16) simdgroup_barrier(mem_flags::mem_threadgroup);  // racy
        simdgroup_barrier(mem_flags::mem_threadgroup);  // right
        threadgroup_barrier(mem_flags::mem_none);
        y[at] = s[simd * 32 + (lane + 16) % 32];  // other
        """,
    ),
    "a_simdgroup_operation_is_no_barrier": (
        "threadgroup memory 's'",
        """
        threadgroup float s[64];
        s[i] = x[at];  // one
        float sum = simd_sum(x[at]);
        simdgroup_barrier(mem_flags::mem_threadgroup);  // right
        y[at] = sum + s[simd * 32 + 31 - lane];  // other
        """,
    ),
    "plain_read_of_an_atomic": (
        "buffer 'count'",
        """
        atomic_fetch_add_explicit(count, 1u, memory_order_relaxed);  // one
        uint now = *(device uint*)count;  // racy other
        uint now = atomic_load_explicit(count, memory_order_relaxed);  // right
        y[at] = now > 0;
        """,
    ),
    "plain_write_beside_atomics": (
        "buffer 'count'",
        """
        if (at == 0) *(device uint*)count = 5;  // racy one
        if (at == 0) atomic_store_explicit(count, 5u, memory_order_relaxed);  // right
        if (at != 0) atomic_fetch_max_explicit(count, at, memory_order_relaxed);  // other
        """,
    ),
    "threadgroup_counter_read_without_a_barrier": (
        "threadgroup memory 'total'",
        """
        threadgroup uint total;
        if (i == 0) total = 0;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        atomic_fetch_add_explicit((threadgroup atomic_uint*)&total, 1u, memory_order_relaxed);// one
        threadgroup_barrier(mem_flags::mem_threadgroup);  // right
        y[at] = total;  // other
        """,
    ),
    "last_arriver_with_a_relaxed_counter": (
        "buffer 'y'",
        """
        if (i == 0) {
          y[g] = 1;  // one
          uint before = atomic_fetch_add_explicit(count, 1u, memory_order_relaxed);
          if (before == 3) x[0] = y[0] + y[1] + y[2] + y[3];  // racy other
          if (before == 3) x[0] = 1;  // right
        }
        """,
    ),
    "everybody_writes_the_same": (
        "buffer 'count'",
        """
        *(device uint*)count = 1;  // racy one other
        atomic_store_explicit(count, 1u, memory_order_relaxed);  // right
        """,
    ),
    "threads_shift_in_place": (
        "buffer 'x'",
        """
        x[at] = x[(at + 1) % 256];  // racy one other
        y[at] = x[(at + 1) % 256];  // right
        """,
    ),
    "chunks_overlap_by_one": (
        "buffer 'y'",
        """
        uint end = i == 0 ? 65 : 64;  // racy
        uint end = 64;  // right
        for (uint k = i; k < end; k += 64) y[(g * 64 + k) % 256] = k;  // one
        if (i == 0) y[(g * 64 + 64) % 256] = 0;  // racy other
        """,
    ),
    "wide_store_over_a_neighbour": (
        "buffer 'y'",
        """
        if (i == 0) *(device float4*)(y + g * 64) = float4(1);  // one
        if (i == 3) y[g * 64 + i] = 2;  // racy other
        if (i == 4) y[g * 64 + i] = 2;  // right
        """,
    ),
    "flag_in_device_memory": (
        "buffer 'x'",
        """
        if (i == 0) x[g] = 1;  // one
        simdgroup_barrier(mem_flags::mem_device);  // racy
        threadgroup_barrier(mem_flags::mem_device);  // right
        y[at] = x[g];  // other
        """,
    ),
}
BOTH_IN_ONE_PLACE = {"chunks_overlap_by_one"}  # whichever of the writes is found first


def variant(text: str, which: str) -> str:
    """The kernel with only the lines of one of the two."""
    left_out = {"racy": "right", "right": "racy"}[which]
    return "\n".join(line for line in text.splitlines() if not re.search(rf"//.*{left_out}", line))


def source_of(which: str) -> str:
    kernels = (
        f"kernel void {name}({ARGUMENTS}) {{{variant(text, which)}}}"
        for name, (_, text) in PLANTED.items()
    )
    return HEADER + "\n".join(kernels)


def lines_of(source: str, kernel: str, mark: str) -> set[str]:
    inside = False
    found = set()
    for number, line in enumerate(source.splitlines(), 1):
        if line.startswith("kernel void "):
            inside = line.startswith(f"kernel void {kernel}(")
        if inside and re.search(rf"//.*\b{mark}\b", line):
            found.add(f"program_source:{number}")
    return found


@pytest.fixture(scope="module")
def arguments() -> Any:
    device = metal.Device()

    def make() -> list[metal.Buffer]:
        buffers = [device.new_buffer_with_bytes(np.ones(256, np.float32)) for _ in range(2)]
        buffers.append(device.new_buffer_with_bytes(np.zeros(1, np.uint32)))
        for buffer, label in zip(buffers, ["x", "y", "count"], strict=True):
            buffer.label = label
        return buffers

    return make


def races_of(which: str, kernel: str, arguments: Any) -> tuple[metal.Race, ...]:
    with metal.tracing(raise_on_race=False) as trace:
        metal.run(source_of(which), kernel, arguments(), 4 * N, N)
    return trace.races


ORDERS = [metal.Order.FORWARD, metal.Order.REVERSE]


@pytest.mark.parametrize("order", ORDERS, ids=["forward", "reverse"])
@pytest.mark.parametrize("kernel", PLANTED)
def test_a_planted_race_is_found_where_it_is(kernel: str, order: Any, arguments: Any) -> None:
    with metal.changed_settings(order=order):
        races = races_of("racy", kernel, arguments)
    assert races, "not found"
    memory = PLANTED[kernel][0]
    source = source_of("racy")
    wanted = [lines_of(source, kernel, mark) for mark in ("one", "other")]
    for race in races:
        assert race.memory.startswith(memory)
        assert race.first.write or race.second.write
        places = [race.first.line.rpartition(":")[0], race.second.line.rpartition(":")[0]]
        if kernel in BOTH_IN_ONE_PLACE:
            assert set(places) <= wanted[0] | wanted[1]
        else:
            assert {places[0]} | {places[1]} == wanted[0] | wanted[1]
        one = (race.first.thread, race.first.threadgroup)
        assert one != (race.second.thread, race.second.threadgroup)


@pytest.mark.parametrize("kernel", PLANTED)
def test_the_correct_twin_is_clean(kernel: str, arguments: Any) -> None:
    assert races_of("right", kernel, arguments) == ()


def test_the_report_names_bytes_and_threads(arguments: Any) -> None:
    (race,) = races_of("racy", "device_memory_behind_a_threadgroup_barrier", arguments)
    at = 64 * race.first.threadgroup[0] + race.first.thread[0]
    at_other = 64 * race.second.threadgroup[0] + 63 - race.second.thread[0]
    offsets = {4 * at, 4 * at_other} if race.first.write else {4 * (127 - at), 4 * at_other}
    assert race.offset in offsets
    assert race.first.threadgroup == race.second.threadgroup
    for words in ("mem_device", "threadgroup (0, 0, 0)", "program_source:", "argument 'y'"):
        assert words in race.text


def test_positions_at_the_edge_of_a_grid_of_three_dimensions() -> None:
    source = (
        HEADER
        + """
    kernel void edge(device float* x [[buffer(0)]], uint3 at [[thread_position_in_grid]]) {
      if (all(at == uint3(4, 2, 1)) || all(at == uint3(0))) x[0] = 1;
    }"""
    )
    with metal.tracing(raise_on_race=False) as trace:
        metal.run(source, "edge", [np.zeros(1, np.float32)], (5, 3, 2), (4, 2, 1))
    (race,) = trace.races
    found = {(a.threadgroup, a.thread) for a in (race.first, race.second)}
    assert found == {((0, 0, 0), (0, 0, 0)), ((1, 1, 1), (0, 0, 0))}


def test_a_race_fails_the_command_buffer_where_nobody_collects(arguments: Any) -> None:
    kernel = "everybody_writes_the_same"
    with metal.changed_settings(trace=True):
        with pytest.raises(metal.MetalError, match=f"kernel '{kernel}': data race at byte offset"):
            metal.run(source_of("racy"), kernel, arguments(), 4 * N, N)
        metal.run(source_of("right"), kernel, arguments(), 4 * N, N)


def test_tracing_raises_what_it_found(arguments: Any) -> None:
    with (
        pytest.raises(metal.DataRaceError, match="mem_threadgroup is between them") as error,
        metal.tracing(),
    ):
        metal.run(source_of("racy"), "barrier_for_no_memory", arguments(), 4 * N, N)
    assert error.value.races[0].memory == "threadgroup memory 's'"


# ---- dispatches of a concurrent encoder ---------------------------------------------------------

STEPS = (
    HEADER
    + """
kernel void write_x(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  x[i] = 1;
}
kernel void read_x(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                   uint i [[thread_position_in_grid]]) {
  y[i] = x[i];
}
"""
)


def two_steps(arguments: Any, kind: metal.DispatchType, barrier: Any) -> tuple[metal.Race, ...]:
    device = metal.Device()
    library = device.new_library_with_source(STEPS, metal.precise_options())
    x, y, _ = arguments()
    with metal.tracing(raise_on_race=False) as trace:
        commands = device.new_command_queue().command_buffer()
        encoder = commands.compute_command_encoder(kind)
        for kernel in ("write_x", "read_x"):
            function = library.new_function_with_name(kernel)
            encoder.set_compute_pipeline_state(
                device.new_compute_pipeline_state_with_function(function)
            )
            encoder.set_buffer(x, 0, 0)
            encoder.set_buffer(y, 0, 1)
            encoder.dispatch_threads((256, 1, 1), (64, 1, 1))
            if kernel == "write_x":
                barrier(encoder, x, y)
        encoder.end_encoding()
        commands.commit()
        commands.wait_until_completed()
    assert commands.error is None
    return trace.races


CONCURRENT = metal.DispatchType.CONCURRENT


def test_concurrent_dispatches_race_without_a_barrier(arguments: Any) -> None:
    races = two_steps(arguments, CONCURRENT, lambda encoder, x, y: None)
    assert races
    assert {races[0].first.kernel, races[0].second.kernel} == {"write_x", "read_x"}
    assert "no memoryBarrier" in races[0].text


def test_a_barrier_of_other_resources_does_not_order(arguments: Any) -> None:
    assert two_steps(
        arguments, CONCURRENT, lambda encoder, x, y: encoder.memory_barrier_with_resources([y])
    )


@pytest.mark.parametrize(
    "barrier",
    [
        lambda encoder, x, y: encoder.memory_barrier_with_resources([x]),
        lambda encoder, x, y: encoder.memory_barrier(),
    ],
    ids=["resources", "scope"],
)
def test_a_barrier_orders_concurrent_dispatches(arguments: Any, barrier: Any) -> None:
    assert two_steps(arguments, CONCURRENT, barrier) == ()


def test_a_serial_encoder_needs_no_barrier(arguments: Any) -> None:
    assert two_steps(arguments, metal.DispatchType.SERIAL, lambda encoder, x, y: None) == ()
