"""Nothing runs before a commit; what waits, what commits and what only looks, told apart."""

from __future__ import annotations

import threading

import pytest
import torch

import mps_ds.softmps as softmps

SOURCE = """
kernel void add_one(device float* x, uint i [[thread_position_in_grid]]) { x[i] += 1; }
kernel void overrun(device float* x, constant uint& n, uint i [[thread_position_in_grid]]) {
  x[i + n] = 1;
}
"""


@pytest.fixture(scope="module")
def kernels():
    return torch.mps.compile_shader(SOURCE)


def now(x: torch.Tensor) -> list[float]:
    """What the memory holds at this moment, without waiting."""
    return softmps.host_view(x, wait=False).tolist()


def program_counts() -> dict[str, int]:
    return {n: softmps.counters()[n] for n in ("commits", "waits", "host_reads", "host_writes")}


def test_a_kernel_does_not_run_before_a_commit(kernels) -> None:
    x = torch.zeros(4, device="mps")
    softmps.reset_counters()
    kernels.add_one(x)
    assert now(x) == [0] * 4
    assert softmps.pending()
    assert program_counts() == {"commits": 0, "waits": 0, "host_reads": 0, "host_writes": 0}
    torch.mps.synchronize()
    assert now(x) == [1] * 4
    assert not softmps.pending()
    assert program_counts() == {"commits": 1, "waits": 1, "host_reads": 0, "host_writes": 0}


def test_kernels_share_a_command_buffer_and_an_encoder(kernels) -> None:
    x = torch.zeros(4, device="mps")
    softmps.reset_counters()
    for _ in range(5):
        kernels.add_one(x)
    torch.mps.synchronize()
    counts = softmps.counters()
    assert counts["dispatches"] == 5
    assert counts["encoders"] == counts["command_buffers"] == counts["commits"] == 1
    assert counts["kernels"]["add_one"]["dispatches"] == 5
    assert counts["kernels"]["add_one"]["threads"] == 20
    assert now(x) == [5] * 4


@pytest.mark.parametrize(
    "read",
    [
        lambda x, ones: x[0].item(),
        lambda x, ones: x.cpu()[0].item(),
        lambda x, ones: x.tolist()[0],
        lambda x, ones: torch.zeros(4).copy_(x)[0].item(),
        lambda x, ones: float(x[3]),
        lambda x, ones: int(torch.equal(x, ones)),
    ],
    ids=["item", "cpu", "tolist", "copy_", "float", "equal"],
)
def test_a_read_waits_and_counts(kernels, read) -> None:
    x, ones = torch.zeros(4, device="mps"), torch.ones(4, device="mps")
    softmps.reset_counters()
    kernels.add_one(x)
    assert read(x, ones) == 1
    counts = program_counts()
    assert counts["host_reads"] == counts["commits"] == 1
    assert counts["waits"] >= 1


def test_results_whose_size_depends_on_data_are_reads() -> None:
    x = torch.tensor([0.0, 1, 0], device="mps")
    mask = x > 0
    for read in (lambda: x.nonzero(), lambda: x[mask], lambda: x.masked_select(mask)):
        softmps.reset_counters()
        read()
        assert softmps.counters()["host_reads"] == 1


def test_a_write_from_the_host_counts() -> None:
    x = torch.zeros(4, device="mps")
    softmps.reset_counters()
    x.copy_(torch.ones(4))
    torch.tensor(3.0, device="mps")
    assert program_counts() == {"commits": 0, "waits": 2, "host_reads": 0, "host_writes": 2}


def test_an_operator_waits_but_not_for_the_program(kernels) -> None:
    x = torch.zeros(4, device="mps")
    kernels.add_one(x)
    softmps.reset_counters()
    y = x + 1
    assert now(y) == [2] * 4
    counts = softmps.counters()
    assert program_counts() == {"commits": 0, "waits": 0, "host_reads": 0, "host_writes": 0}
    assert counts["fallback_commits"] == counts["fallback_waits"] == 1


def test_views_and_metadata_touch_nothing(kernels) -> None:
    x = torch.zeros(4, 4, device="mps")
    kernels.add_one(x)
    softmps.reset_counters()
    _ = x.t()[1:].shape, x.view(16), x.is_contiguous(), torch.empty(3, device="mps")
    assert softmps.host_view(x, wait=False)[0].tolist() == [0] * 4


def test_a_non_blocking_read_is_complete_after_a_wait(kernels) -> None:
    x = torch.zeros(4, device="mps")
    target = torch.full((4,), -1.0)
    kernels.add_one(x)
    target.copy_(x, non_blocking=True)
    assert softmps.pending()  # whether the copy has happened is anybody's guess
    torch.mps.synchronize()
    assert target.tolist() == [1] * 4


def test_dropping_the_target_of_a_non_blocking_read_is_harmless(kernels) -> None:
    x = torch.zeros(1000, device="mps")
    kernels.add_one(x)
    x.to("cpu", non_blocking=True)
    torch.mps.synchronize()


def test_a_failing_kernel_raises_at_the_next_wait_and_the_device_goes_on(kernels) -> None:
    x = torch.zeros(4, device="mps")
    kernels.overrun(x, 1 << 20, threads=4)
    with pytest.raises(RuntimeError, match=r"MPS command buffer failed: .*overrun"):
        torch.mps.synchronize()
    assert torch.ones(3, device="mps").sum().item() == 3
    kernels.overrun(x, 1 << 20, threads=4)
    with pytest.raises(RuntimeError, match="MPS command buffer failed"):
        x + 1  # an operator waits, so it may be the one that reports
    kernels.add_one(x)
    assert x.tolist() == [1] * 4


def test_a_freed_tensor_stays_alive_for_the_kernel_that_was_given_it(kernels) -> None:
    x = torch.zeros(1000, device="mps")
    watch = softmps.host_view(x)
    kernels.add_one(x)
    del x
    _ = [torch.full((1000,), 9.0, device="mps") for _ in range(20)]
    torch.mps.synchronize()
    assert watch.unique().tolist() == [1]


def test_events() -> None:
    start, end = torch.mps.Event(enable_timing=True), torch.mps.Event(enable_timing=True)
    assert not start.query()  # never recorded
    start.record()
    torch.ones(8, device="mps").sum()
    end.record()
    end.wait()
    end.synchronize()
    assert start.query()
    assert end.query()
    assert start.elapsed_time(end) > 0
    with pytest.raises(RuntimeError, match="was not recorded after start event"):
        end.elapsed_time(start)


def test_events_without_timing_have_no_time() -> None:
    a, b = torch.mps.Event(), torch.mps.Event()
    a.record()
    b.record()
    with pytest.raises(RuntimeError, match="not created with argument 'enable_timing=True'"):
        a.elapsed_time(b)


def test_synchronising_an_event_waits_for_what_came_before_it(kernels) -> None:
    x = torch.zeros(4, device="mps")
    event = torch.mps.Event()
    kernels.add_one(x)
    event.record()
    kernels.add_one(x)
    softmps.reset_counters()
    event.synchronize()
    assert now(x) == [1] * 4  # the second one has not been committed
    assert softmps.counters()["waits"] == 1


def test_torch_events_and_the_accelerator_interface(kernels) -> None:
    assert torch.accelerator.current_accelerator() == torch.device("mps")
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == 1
    assert torch.accelerator.current_device_index() == 0
    x = torch.zeros(4, device="mps")
    start, end = torch.Event("mps", enable_timing=True), torch.Event("mps", enable_timing=True)
    start.record()
    kernels.add_one(x)
    end.record()
    end.synchronize()
    assert now(x) == [1] * 4
    assert start.elapsed_time(end) >= 0
    kernels.add_one(x)
    torch.accelerator.synchronize()
    assert now(x) == [2] * 4


def test_two_threads_do_not_corrupt_the_stream(kernels) -> None:
    """Kernels, operators, backward, copies, events and waits from two threads at once: no crash, no
    deadlock, and every thread sees its own results.
    """
    errors: list[BaseException] = []

    def work() -> None:
        try:
            x = torch.zeros(256, device="mps")
            model = torch.nn.Linear(16, 16).to("mps")
            for i in range(1, 61):
                kernels.add_one(x)
                copied = x.to("cpu", non_blocking=True).view(16, 16)
                model(torch.ones(4, 16, device="mps")).sum().backward()
                event = torch.mps.Event()
                event.record()
                event.synchronize()
                assert event.query()
                assert copied.unique().tolist() == [i]
                torch.mps.synchronize()
            assert model.weight.grad.unique().tolist() == [60 * 4]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
    assert not errors
