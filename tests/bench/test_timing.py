"""Times, by a clock that only the work moves."""

import pytest

from mps_ds.bench import timing
from mps_ds.bench.target import Target


class Clock:
    """perf_counter, and a device that takes its time in synchronize."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.queued = 0.0
        monkeypatch.setattr(timing.time, "perf_counter", lambda: self.now)
        self.target = Target("mps", 1 << 30, synchronize=self.finish)

    def finish(self) -> None:
        self.now += self.queued
        self.queued = 0.0

    def work(self, host: float, device: float):
        def call() -> None:
            self.now += host
            self.queued += device

        return call


def test_host_time_and_whole_time(monkeypatch):
    clock = Clock(monkeypatch)
    works = {"a": clock.work(0.001, 0.004), "b": clock.work(0.002, 0)}
    times = timing.time_works(works, clock.target, rounds=3)
    assert times["a"].seconds == pytest.approx(0.005)
    assert times["a"].host_seconds == pytest.approx(0.001)
    assert times["b"].seconds == times["b"].host_seconds == pytest.approx(0.002)


def test_an_outlier_does_not_count(monkeypatch):
    clock = Clock(monkeypatch)
    calls = 0

    def sometimes_slow() -> None:
        nonlocal calls
        calls += 1
        clock.now += 5.0 if calls == 5 else 1.0

    assert timing.time_works({"a": sometimes_slow}, clock.target, 5)["a"].seconds == 1.0


def test_contestants_take_turns(monkeypatch):
    clock = Clock(monkeypatch)
    order = []

    def logged(name):
        def call() -> None:
            order.append(name)
            clock.now += 1.0  # a turn is one call

        return call

    timing.time_works({"a": logged("a"), "b": logged("b")}, clock.target, 3)
    assert order[-6:] == ["a", "b"] * 3


@pytest.mark.parametrize(("seconds", "calls"), [(1.0, 1), (0.001, 20), (1e-9, 100)])
def test_short_calls_are_repeated_within_a_turn(monkeypatch, seconds, calls):
    clock = Clock(monkeypatch)
    made = 0

    def work() -> None:
        nonlocal made
        made += 1
        clock.now += seconds

    timing.time_works({"a": work}, clock.target, 2)
    assert made == timing.WARM_UP + 1 + 2 * calls


def test_copy_bandwidth_counts_what_is_read_and_written(monkeypatch):
    clock = Clock(monkeypatch)
    import torch

    def copied(self, source):
        clock.now += 0.5
        return self

    monkeypatch.setattr(torch.Tensor, "copy_", copied)
    target = Target("cpu", 1 << 30)
    assert timing.copy_bandwidth(target, 1 << 20, 3) == pytest.approx(2 * (1 << 20) / 0.5)
