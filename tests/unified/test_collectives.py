"""`torch.distributed` on mps tensors gives what it gives on CPU tensors, bit for bit.

The cases are in collective_cases.py. Two processes run all of them, once with Shared storage, once
as if the storage were Private; importing torch takes longer than the cases do.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from unified.collective_cases import CASES

import mps_ds.distributed
from mps_ds import _ordered_work

WORLD = 2

if not torch.backends.mps.is_available():
    pytest.skip("no mps device in this build", allow_module_level=True)
if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this PyTorch has no gloo", allow_module_level=True)


def run_workers(folder: Path, storage: str) -> list[dict]:
    worker = Path(__file__).with_name("collective_worker.py")
    path = os.pathsep.join([str(worker.parents[1]), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, "MPS_DS_SOFT": "1", "OMP_NUM_THREADS": "1"}
    if sys.platform == "darwin":
        del environment["MPS_DS_SOFT"]
    results = [folder / f"{rank}.pt" for rank in range(WORLD)]
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                worker,
                str(rank),
                str(WORLD),
                folder / "store",
                results[rank],
                storage,
            ],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(WORLD)
    ]
    said = [process.communicate(timeout=300)[1] for process in processes]
    assert all(process.returncode == 0 for process in processes), "\n".join(said)
    return [torch.load(result) for result in results]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    made: dict[str, list[dict]] = {}

    def outcomes(storage: str) -> list[dict]:
        if storage not in made:
            made[storage] = run_workers(tmp_path_factory.mktemp(storage), storage)
        return made[storage]

    return outcomes


@pytest.mark.parametrize("storage", ["shared", "private"])
@pytest.mark.parametrize("name", CASES)
def test_mps_tensors_as_cpu_tensors(outcomes, name: str, storage: str) -> None:
    if (name, storage) == ("receive_from_anybody", "private"):
        pytest.skip("refused: the test below")
    for rank, outcome in enumerate(outcomes(storage)):
        cpu, mps = outcome[name]["cpu"], outcome[name]["mps"]
        assert not isinstance(cpu, str), f"rank {rank}, the judge failed:\n{cpu}"
        assert not isinstance(mps, str), f"rank {rank}:\n{mps}"
        assert len(cpu) == len(mps)
        for expected, actual in zip(cpu, mps, strict=True):
            assert torch.equal(expected, actual), f"rank {rank}"


def test_every_collective_of_pytorch_is_there() -> None:
    """An operator that a new PyTorch adds shows here, not in somebody's training run."""
    ours = {f"c10d::{name}" for name in mps_ds.distributed._OUTPUTS}
    theirs = {s.name for s in torch._C._jit_get_all_schemas() if s.name.startswith("c10d::")}
    assert theirs - ours <= {"c10d::check_for_nan"}
    assert ours <= theirs
    for name, outputs in mps_ds.distributed._OUTPUTS.items():
        schema = getattr(torch.ops.c10d, name).default._schema
        assert outputs <= {argument.name for argument in schema.arguments}


@pytest.fixture
def group(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield dist.group.WORLD
    mps_ds.distributed.disable()
    dist.destroy_process_group()


def test_enable_and_disable(group) -> None:
    x, before = torch.ones(2, device="mps"), set(dir(torch.mps))
    with pytest.raises(NotImplementedError):
        dist.all_reduce(x)
    for _ in range(2):
        mps_ds.distributed.enable()
        assert torch.mps.is_initialized()
        mps_ds.distributed.enable()
        assert mps_ds.distributed.is_enabled()
        dist.all_reduce(x)
        assert x.tolist() == [1, 1]
        mps_ds.distributed.disable()
        mps_ds.distributed.disable()
        assert not mps_ds.distributed.is_enabled()
        assert set(dir(torch.mps)) == before
        with pytest.raises(NotImplementedError):
            dist.all_reduce(x)


@pytest.mark.skipif(sys.platform == "darwin", reason="the software device counts waits")
@pytest.mark.filterwarnings("ignore::FutureWarning")  # of the coalesced ones
def test_a_collective_waits_once_for_all_of_its_tensors(group) -> None:
    from mps_ds import softmps

    mps_ds.distributed.enable()
    tensors = [torch.full((2,), float(i), device="mps") for i in range(5)]
    for collective in (
        lambda: dist.all_reduce(tensors[0]),
        lambda: dist.all_reduce_coalesced(tensors),
        lambda: dist.all_gather([tensors[0]], tensors[1]),
        lambda: dist.all_gather_coalesced([tensors[:2]], tensors[2:4]),
        lambda: dist.all_to_all(tensors[:1], tensors[1:2]),
    ):
        with softmps.count() as counted:
            collective()
        assert counted.waits == 1
    assert [t.tolist()[0] for t in tensors] == [3.0, 3.0, 2.0, 3.0, 4.0]


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("shared", [True, False])
def test_a_number_is_gathered_as_nccl_does_it(group, monkeypatch, shared) -> None:
    """gloo refuses it on the CPU, where its share of the output has one dimension."""
    mps_ds.distributed.enable()
    if not shared:
        monkeypatch.setattr(mps_ds.distributed, "is_shared", lambda tensor: False)
    output = torch.zeros(1, device="mps")
    dist.all_gather_into_tensor(output, torch.tensor(5.0, device="mps"))
    assert output.tolist() == [5]


def test_waiting_for_a_collective_waits_for_those_before_it(group) -> None:
    """As with NCCL, which runs those of a group in order; gloo may be done with a later one."""

    def work(done: torch.futures.Future, of: str) -> dist.Work:
        started = _ordered_work.c10d._create_work_from_future(done)
        return _ordered_work.in_order(started, [torch.ones(1)], groups[of])

    def fail(done: torch.futures.Future) -> None:
        raise RuntimeError("the other side is gone")

    class Group:
        pass

    groups = {"a": Group(), "b": Group()}
    mps_ds.distributed.enable()
    first, second, elsewhere = (torch.futures.Future() for _ in range(3))
    works = [work(first, "a"), work(second, "a"), work(elsewhere, "b")]
    second.set_result([])
    elsewhere.set_result([])
    assert [w.is_completed() for w in works] == [False, False, True]
    first.set_result([])
    works[1].wait()
    assert all(w.is_completed() for w in works)
    third = torch.futures.Future()
    failed = work(third.then(fail), "a")
    third.set_result([])
    for _ in range(2):
        with pytest.raises(RuntimeError, match="the other side is gone"):
            failed.wait()
    x = torch.ones(2, device="mps")
    dist.all_reduce(x)  # what failed is no concern of those that follow
    assert x.tolist() == [1, 1]


def test_a_backend_for_mps_alone(tmp_path) -> None:
    """What init_process_group() without a backend chooses on a Mac."""
    mps_ds.distributed.enable()
    store = f"file://{tmp_path}/store"
    dist.init_process_group("mps:gloo", init_method=store, rank=0, world_size=1)
    try:
        x = torch.ones(2, device="mps")
        dist.all_reduce(x)
        assert x.tolist() == [1, 1]
    finally:
        mps_ds.distributed.disable()
        dist.destroy_process_group()


def test_private_storage_receives_from_a_given_source_only(group, monkeypatch) -> None:
    mps_ds.distributed.enable()
    monkeypatch.setattr(mps_ds.distributed, "is_shared", lambda tensor: False)
    with pytest.raises(NotImplementedError, match="can only receive from a given source"):
        dist.irecv(torch.zeros(2, device="mps"))
