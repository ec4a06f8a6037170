"""The Work of a collective on mps tensors: waiting, what it holds, and leaving without it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import mps_ds.distributed
from mps_ds import _ordered_work

if not torch.backends.mps.is_available():
    pytest.skip("no mps device in this build", allow_module_level=True)
if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this PyTorch has no gloo", allow_module_level=True)

BYTES = 1 << 24


def outcomes(case: str, folder: Path) -> list[tuple[int, str]]:
    """Exit status and standard error of two processes."""
    worker = Path(__file__).with_name("work_worker.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    if sys.platform != "darwin":
        environment["MPS_DS_SOFT"] = "1"
    processes = [
        subprocess.Popen(
            [sys.executable, worker, case, str(rank), folder],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=300)[1] for process in processes]
    return [(process.returncode, text) for process, text in zip(processes, said, strict=True)]


@pytest.mark.parametrize(
    "case",
    [
        "wait_with_a_timeout",
        "time_out_often",
        "give_up_on_a_group",
        "leave_while_one_is_running",
        "leave_while_the_other_is_gone",
    ],
)
def test_processes_end_well(case: str, tmp_path) -> None:
    for status, said in outcomes(case, tmp_path):
        assert status == 0, said


def test_a_failing_program_fails_as_it_would(tmp_path) -> None:
    """With its own error, not with an abort of the threads that it leaves behind."""
    (status, said), (other, _) = outcomes("fail_while_one_is_running", tmp_path)
    assert (status, other) == (1, 0), said
    assert said.rstrip().endswith("ValueError: of the program")


@pytest.fixture
def group(tmp_path):
    mps_ds.distributed.enable()
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield dist.group.WORLD
    mps_ds.distributed.disable()
    dist.destroy_process_group()


def allocated() -> int:
    gc.collect()
    torch.mps.synchronize()
    return torch.mps.current_allocated_memory()


@pytest.mark.parametrize("waits", [True, False], ids=["waited for", "forgotten"])
def test_a_collective_that_is_done_holds_no_memory(group, waits: bool) -> None:
    before = allocated()
    x = torch.ones(BYTES // 4, device="mps")
    work = dist.all_reduce(x, async_op=True)
    future = work.get_future()
    if waits:
        work.wait()
    else:
        future.wait()
    assert allocated() >= before + BYTES
    del x, work, future
    assert allocated() == before


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_forked_process_does_not_wait_for_its_parents_collectives(group) -> None:
    """When it ends: gloo's threads are not in it, so it would wait for ever."""
    pending = torch.futures.Future()
    started = _ordered_work.c10d._create_work_from_future(pending)
    work = _ordered_work.in_order(started, [], group)
    child = os.fork()
    if child == 0:
        os._exit(len(_ordered_work._unfinished) + _ordered_work.is_running(group))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert _ordered_work.is_running(group)
    pending.set_result([])
    assert work.wait()
    assert not _ordered_work.is_running(group)


def test_collectives_of_a_group_find_those_before_them(group) -> None:
    pending = torch.futures.Future()
    started = _ordered_work.c10d._create_work_from_future(pending)
    first = _ordered_work.in_order(started, [], group)
    second = dist.all_reduce(torch.ones(2, device="mps"), async_op=True)
    elsewhere = dist.all_reduce(
        torch.ones(2, device="mps"), group=dist.new_group([0]), async_op=True
    )
    assert elsewhere.wait()
    assert not second.is_completed()
    pending.set_result([])
    assert second.wait()
    assert first.is_completed()


def test_work_holds_its_own_tensors_and_no_others(group) -> None:
    before = allocated()
    works = [dist.all_reduce(torch.ones(BYTES // 4, device="mps"), async_op=True) for _ in range(4)]
    works[-1].wait()
    del works[:-1]
    assert allocated() == before + BYTES
    works.clear()
    assert allocated() == before
