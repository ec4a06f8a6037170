"""Times of a real device: medians of rounds in which every contestant has its turn."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from .cases import Work
from .target import Target

WARM_UP = 2
SECONDS_A_TURN = 0.02
"""A turn repeats its call until it takes about this long: waiting for a GPU costs some 0.2 ms."""
MOST_CALLS_A_TURN = 100


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: until the device is done, and until the call has returned."""

    seconds: float
    host_seconds: float


def time_works(works: Mapping[str, Work], target: Target, rounds: int) -> dict[str, Timing]:
    """The medians; clocks and other load change in the course of a run, for all alike.

    perf_counter around synchronize: torch.mps.Event's times can hang (pytorch#162872).
    """
    calls = {name: _calls_a_turn(work, target) for name, work in works.items()}
    samples: dict[str, list[Timing]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            samples[name].append(_turn(work, target, calls[name]))
    return {
        name: Timing(
            statistics.median(timing.seconds for timing in timings),
            statistics.median(timing.host_seconds for timing in timings),
        )
        for name, timings in samples.items()
    }


def _calls_a_turn(work: Work, target: Target) -> int:
    for _ in range(WARM_UP):
        work()
    once = max(_turn(work, target, 1).seconds, 1e-9)
    return min(MOST_CALLS_A_TURN, math.ceil(SECONDS_A_TURN / once))


def _turn(work: Work, target: Target, calls: int) -> Timing:
    target.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        work()
    returned = time.perf_counter()
    target.synchronize()
    done = time.perf_counter()
    return Timing((done - start) / calls, (returned - start) / calls)


def copy_bandwidth(target: Target, size: int, rounds: int) -> float:
    """Bytes a second that `copy_` reads and writes, between two tensors of `size` bytes."""
    source = torch.ones(size // 4, device=target.device)
    copy = torch.empty_like(source)
    timing = time_works({"copy": lambda: copy.copy_(source)}, target, rounds)["copy"]
    return 2 * source.nbytes / timing.seconds
