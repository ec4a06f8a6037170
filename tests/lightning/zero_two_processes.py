"""What each of two processes does that torchrun has started: see test_strategies_two_processes.py.

torchrun --nproc-per-node 2 zero_two_processes.py FOLDER PRECISION NAME...
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import lightning.fabric
import lightning.pytorch as pl
import torch
import zero_training
from zero_training import STEPS, ParamsAtEnd, losses, module, trainer

import mps_ds.lightning  # noqa: F401 - registers the names

HALF = STEPS // 2
RANK = int(os.environ["RANK"])
WORLD = int(os.environ["WORLD_SIZE"])


def my_data(steps: int) -> torch.utils.data.DataLoader:
    """Batches RANK, RANK + WORLD, ...: what one process takes in turn, two take at once."""
    batches = list(zero_training.data(steps * WORLD))[RANK::WORLD]
    return torch.utils.data.DataLoader(torch.cat(batches), batch_size=zero_training.BATCH)


def fit(name: str, precision: str, steps: int, epochs: int, **fitting) -> tuple[list[float], list]:
    told, end = module(pl), ParamsAtEnd.callback(pl)
    run = trainer(pl, name, max_epochs=epochs, precision=precision, callbacks=[end])
    run.fit(told, my_data(steps), **fitting)
    assert (run.world_size, run.global_rank) == (WORLD, RANK)
    return losses(told), end.params, run


def with_trainer(name: str, precision: str, folder: Path) -> dict:
    told, params, _ = fit(name, precision, STEPS, 1)
    halves, _, run = fit(name, precision, HALF, 1)
    run.save_checkpoint(folder / f"{name}.ckpt")
    resumed, end, _ = fit(name, precision, HALF, 2, ckpt_path=folder / f"{name}.ckpt")
    unbroken, whole, _ = fit(name, precision, HALF, 2)
    return {
        "losses": told,
        "params": params,
        "resumed": (halves + resumed, end),
        "unbroken": (unbroken, whole),
    }


def shared_out(name: str) -> list[int]:
    """Which of the samples 0 to 9 Lightning gives to this process."""
    told = module(pl)
    told.predict_step = lambda batch, batch_idx: batch
    samples = torch.utils.data.DataLoader(torch.arange(10), batch_size=1)
    predicted = trainer(pl, name, use_distributed_sampler=True).predict(told, samples)
    return torch.cat(predicted).tolist()


def with_fabric(name: str) -> dict:
    fabric = lightning.fabric.Fabric(accelerator="mps", devices=1, strategy=name)
    fabric.launch()
    network = zero_training.network()
    optimizer, _ = zero_training.optimizer_of(network.parameters())
    model, optimizer = fabric.setup(network, optimizer)
    told = []
    for batch in my_data(STEPS):
        loss = zero_training.loss_of(model, batch.to(fabric.device))
        told.append(loss.item())
        fabric.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    total = fabric.all_reduce(torch.tensor(float(RANK + 1), device=fabric.device), reduce_op="sum")
    return {"losses": told, "sum": total.item()}


def main() -> None:
    folder, precision, *names = sys.argv[1:]
    results = {name: with_trainer(name, precision, Path(folder)) for name in names}
    if precision == "32-true":
        for name in ("mps_zero2", "mps_replicas"):
            results[f"fabric {name}"] = with_fabric(name)
        results["shared out"] = shared_out(names[0])
    torch.save(results, f"{folder}/rank{RANK}.pt")


main()
