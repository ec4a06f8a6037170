"""work_worker.py CASE RANK FOLDER: one of two processes that meet in a collective, or do not."""

from __future__ import annotations

import gc
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

this, folder = int(sys.argv[2]), Path(sys.argv[3])


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
        assert not work.is_completed()
        assert not work.get_future().done()
        assert 0.19 < time.monotonic() - start < 60
    tell("timed out")
    assert second.wait()
    assert first.is_completed()
    assert x.eq(3).all()
    assert y.eq(3).all()
    assert first.wait()


def time_out_often(rank: int) -> None:
    """Waits that end early keep nothing."""
    if rank == 1:
        await_event("timed out")
        for _ in range(4):
            all_reduce(1 << 20)[1].wait()
        return
    before = torch.mps.current_allocated_memory()
    started = [all_reduce(1 << 20) for _ in range(4)]
    for _, work in started:
        for _ in range(3):
            with pytest.raises(RuntimeError, match=r"(?i)timed out"):
                work.wait(timedelta(seconds=0.01))
    tell("timed out")
    for x, work in started:
        work.wait()
        assert work.get_future().wait()[0].data_ptr() == x.data_ptr()
    del started, x, work
    gc.collect()
    torch.mps.synchronize()
    assert torch.mps.current_allocated_memory() == before


def give_up_on_a_group(rank: int) -> None:
    """Another group, which gets the name of one that was destroyed, has nothing to do with it."""
    if rank == 0:
        all_reduce()
        with pytest.raises(RuntimeError, match=r"(?i)timed out"):
            all_reduce()[1].wait(timedelta(seconds=0.1))
        tell("timed out")
    else:
        await_event("timed out")
    dist.destroy_process_group()
    start("second store")
    began = time.monotonic()
    x, work = all_reduce()
    work.wait()
    assert x.eq(3).all()
    assert time.monotonic() - began < 60


def start(store: str) -> None:
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder / store}",
        rank=this,
        world_size=2,
        timeout=timedelta(seconds=100),
    )


def leave_while_one_is_running(rank: int) -> None:
    """The script ends, and the other comes when Python is on its way out."""
    if rank == 1:
        another = dist.new_group()
        await_event("leaving", and_then=0.5)
        x, work = all_reduce()
        work.wait()
        assert x.eq(3).all()
        await_event("leaving", and_then=0.5)
        dist.all_reduce(torch.ones(3, device="mps"), group=another)
        return
    another = dist.new_group()
    dist.all_reduce(torch.ones(3, device="mps"), group=another, async_op=True)
    all_reduce()
    tell("leaving")


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
        time_out_often,
        give_up_on_a_group,
        leave_while_one_is_running,
        fail_while_one_is_running,
        leave_while_the_other_is_gone,
    )
}

if __name__ == "__main__":
    mps_ds.distributed.enable()
    start("store")
    CASES[sys.argv[1]](this)
