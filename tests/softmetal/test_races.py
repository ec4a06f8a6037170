"""The race detector: every planted race is found where it is, its correct twin is clean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from planted_races import BOTH_IN_ONE_PLACE, HEADER, PLANTED, N, lines_of, source_of

from mps_ds import softmetal as metal


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
