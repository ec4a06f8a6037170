"""work_worker.py CASE RANK FOLDER: one of two processes that meet in a collective, or do not."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import mps_ds.distributed

folder = Path(sys.argv[3])


def tell(event: str) -> None:
    (folder / event).touch()


def await_event(event: str, and_then: float = 0) -> None:
    while not (folder / event).exists():
        time.sleep(0.01)
    time.sleep(and_then)


def all_reduce(count: int = 1000) -> tuple[torch.Tensor, dist.Work]:
    x = torch.full((count,), float(dist.get_rank() + 1), device="mps")
    return x, dist.all_reduce(x, async_op=True)


def wait_with_a_timeout(rank: int) -> None:
    """The other is late: the wait ends when it should, and the collective is not lost."""
    if rank == 1:
        await_event("timed out")
        all_reduce()[1].wait()
        all_reduce()[1].wait()
        return
    (x, first), (y, second) = all_reduce(), all_reduce()
    for work in (first, second):
        start = time.monotonic()
        with pytest.raises(RuntimeError, match=r"(?i)timed out"):
            work.wait(timedelta(seconds=0.2))
        assert 0.19 < time.monotonic() - start < 60
    tell("timed out")
    assert second.wait()
    assert first.is_completed()
    assert x.eq(3).all()
    assert y.eq(3).all()
    assert first.wait()


def leave_while_one_is_running(rank: int) -> None:
    """The script ends, and the other comes when Python is on its way out."""
    if rank == 1:
        await_event("leaving", and_then=0.5)
        x, work = all_reduce()
        work.wait()
        assert x.eq(3).all()
        return
    all_reduce()
    all_reduce_of_another_group()
    tell("leaving")


def all_reduce_of_another_group() -> None:
    alone = dist.new_group([0], use_local_synchronization=True)
    dist.all_reduce(torch.ones(3, device="mps"), group=alone, async_op=True)


def fail_while_one_is_running(rank: int) -> None:
    if rank == 1:
        await_event("leaving", and_then=0.5)
        all_reduce()[1].wait()
        return
    all_reduce()
    tell("leaving")
    raise ValueError("of the program")


def leave_while_the_other_is_gone(rank: int) -> None:
    if rank == 1:
        await_event("leaving")
        os._exit(0)
    all_reduce()
    tell("leaving")


CASES: dict[str, Callable[[int], None]] = {
    case.__name__: case
    for case in (
        wait_with_a_timeout,
        leave_while_one_is_running,
        fail_while_one_is_running,
        leave_while_the_other_is_gone,
    )
}

if __name__ == "__main__":
    mps_ds.distributed.enable()
    this = int(sys.argv[2])
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder / 'store'}",
        rank=this,
        world_size=2,
        timeout=timedelta(seconds=100),
    )
    CASES[sys.argv[1]](this)
