"""Several processes at once: spawn, data loaders of both kinds, and independent programs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# A file, because a spawned child imports the main module anew.
SPAWN = """
import multiprocessing, sys
import torch, mps_ds.softmps

def work(rank, results):
    x = torch.full((1000,), float(rank), device="mps")
    results.put((rank, (x * 2).sum().item()))

if __name__ == "__main__":
    torch.ones(3, device="mps")  # Metal has started here: fork would not do
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    children = [context.Process(target=work, args=(rank, results)) for rank in range(2)]
    for child in children:
        child.start()
    got = sorted(results.get(timeout=100) for _ in children)
    for child in children:
        child.join()
    assert got == [(rank, 2000.0 * rank) for rank in range(2)], got
    assert all(child.exitcode == 0 for child in children)
    print("done")
"""
LOADERS = """
import sys
import torch, mps_ds.softmps

class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return torch.full((4,), float(index)) ** 2  # on the CPU of the worker

if __name__ == "__main__":
    torch.ones(3, device="mps")
    loader = torch.utils.data.DataLoader(
        Squares(), batch_size=2, num_workers=2, multiprocessing_context=sys.argv[1],
        persistent_workers=True)
    for _ in range(2):
        total = sum(batch.to("mps").sum() for batch in loader)
        assert total.item() == 4 * sum(i * i for i in range(8)), total
    print("done")
"""
ON_THE_DEVICE = """
import torch, mps_ds.softmps

class OnTheDevice(torch.utils.data.Dataset):
    def __len__(self):
        return 2
    def __getitem__(self, index):
        return torch.ones(1, device="mps")

torch.ones(3, device="mps")
next(iter(torch.utils.data.DataLoader(OnTheDevice(), num_workers=1,
                                      multiprocessing_context="fork")))
"""


def environment() -> dict[str, str]:
    paths = os.pathsep.join(path for path in sys.path if path)
    return {**os.environ, "PYTHONPATH": paths, "MPS_DS_SOFT": "1"}


def run_file(folder, source: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = folder / "program.py"
    program.write_text(source)
    return subprocess.run(
        [sys.executable, str(program), *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_spawned_children_have_devices_of_their_own(tmp_path) -> None:
    done = run_file(tmp_path, SPAWN)
    assert done.stdout.strip() == "done", done.stderr


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_of_a_data_loader(tmp_path, method: str) -> None:
    done = run_file(tmp_path, LOADERS, method)
    assert done.stdout.strip() == "done", done.stderr


def test_a_forked_worker_that_uses_the_device_raises(tmp_path) -> None:
    done = run_file(tmp_path, ON_THE_DEVICE)
    assert done.returncode != 0
    assert "MPS was initialised before fork; use spawn" in done.stderr


@pytest.mark.slow
def test_programs_side_by_side() -> None:
    code = (
        "import torch, mps_ds.softmps\n"
        "k = torch.mps.compile_shader('kernel void side_by_side(device float* x, uint i "
        "[[thread_position_in_grid]]) { x[i] += 1; }')\n"
        "x = torch.zeros(1000, device='mps')\n"
        "for _ in range(50): k.side_by_side(x); x.add_(1)\n"
        "print(x.unique().tolist())"
    )
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", code], env=environment(), stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    assert [program.communicate(timeout=300)[0].strip() for program in programs] == ["[100.0]"] * 3
