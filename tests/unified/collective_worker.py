"""collective_worker.py RANK WORLD_SIZE STORE RESULTS STORAGE: every case on cpu and on mps."""

from __future__ import annotations

import sys
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist
from unified.collective_cases import CASES

import mps_ds.distributed
from mps_ds import unified


def run(name: str, device: str) -> list[torch.Tensor] | str:
    try:
        torch.manual_seed(0)
        return [tensor.detach().cpu() for tensor in CASES[name](torch.device(device))]
    except Exception:
        return traceback.format_exc()


def main(rank: int, world: int, store: str, results: str, storage: str) -> None:
    if storage == "private":  # as with PyTorch 2.11 and older, where the CPU cannot reach a tensor
        mps_ds.distributed.is_shared = lambda tensor: False
        unified.cpu_views = mps_ds.distributed.cpu_views = None
    dist.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=100),
    )
    mps_ds.distributed.enable()
    names = [name for name in CASES if (name, storage) != ("receive_from_anybody", "private")]
    outcomes = {name: {d: run(name, d) for d in ("cpu", "mps")} for name in names}
    torch.save(outcomes, results)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:6])
