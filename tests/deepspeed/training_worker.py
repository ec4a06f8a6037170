"""training_worker.py DEVICE RANK PROCESSES STORE RESULTS CASE...: train the cases on one device.

On cpu it is DeepSpeed as it comes, on its own accelerator for CPUs, with one thing exchanged: its
two Adams call this package's operations, on CPU tensors. DeepSpeed's own for the CPU want a
compiler; and with the same Adam on both sides all else has to be equal bit for bit.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo

sys.path.insert(0, str(Path(__file__).parent))
from training_cases import CASES, train


def judge() -> None:
    import deepspeed.ops.adam.cpu_adam
    import deepspeed.ops.adam.fused_adam

    from mps_ds import ops

    class Builder:
        def __init__(self, module):
            self.module = module

        def load(self):
            return self.module

    # A compiler again, for minutes; gloo serves. (The attribute deepspeed.comm.torch is PyTorch.)
    backend = importlib.import_module("deepspeed.comm.torch")
    assert callable(backend.build_shm_op)
    backend.build_shm_op = lambda: None
    deepspeed.ops.adam.fused_adam.FusedAdamBuilder = lambda: Builder(ops)
    deepspeed.ops.adam.cpu_adam.CPUAdamBuilder = lambda: Builder(ops.cpu_adam)


def start(device: str, rank: int, processes: int, store: str) -> None:
    """DeepSpeed on that device, and its process group."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(processes))
    torch._dynamo.config.disable = True  # Muon compiles; nothing compiles for the software device
    if device == "cpu":
        os.environ["DS_ACCELERATOR"] = "cpu"
        import mps_ds.ops.cpu_adam

        judge()
    else:
        import mps_ds.deepspeed

        mps_ds.deepspeed.enable()
    import deepspeed.comm

    deepspeed.comm.init_distributed(
        "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=processes,
        verbose=False,
        auto_mpi_discovery=False,
    )


def finish() -> None:
    import deepspeed.comm

    deepspeed.comm.destroy_process_group()


def outcomes(
    cases: Iterable[Any], names: set[str], run: Callable[[Any], Any]
) -> dict[str, Any | str]:
    """What `run` makes of each of the named cases, or how it failed."""
    told = {}
    for case in cases:
        if str(case) in names:
            try:
                told[str(case)] = run(case)
            except Exception:
                told[str(case)] = traceback.format_exc()
    return told


def main(device: str, rank: int, processes: int, store: str, results: str, names: set[str]) -> None:
    start(device, rank, processes, store)
    told = outcomes(CASES, names, lambda case: train(case, rank, processes, device))
    torch.save(told, results)
    finish()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:6], set(sys.argv[6:]))
