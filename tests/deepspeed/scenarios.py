"""What a training program does with an engine beyond plain steps. Run by scenario_worker.py.

Each scenario returns lists of numbers. They have to be the same on mps and on the CPU, bit for bit.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from training_cases import BATCH, CONTEXT, LR, Case, LanguageModel, model

from mps_ds.selftest.training import Text

Scenario = Callable[["Run"], list[float]]
SCENARIOS: dict[str, Scenario] = {}


class Run:
    """Where a scenario runs: device, process, and a folder that all processes share."""

    def __init__(self, device: str, rank: int, processes: int, folder: Path) -> None:
        self.device, self.rank, self.processes, self.folder = device, rank, processes, folder
        self.text = Text()

    def engine(self, network: nn.Module, config: dict[str, Any], groups: Any = None) -> Any:
        import deepspeed
        from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam

        offload = "offload_optimizer" in config["zero_optimization"]
        kind = DeepSpeedCPUAdam if offload else FusedAdam
        optimizer = kind(groups or network.parameters(), lr=LR, weight_decay=0.1)
        engine, *_ = deepspeed.initialize(model=network, optimizer=optimizer, config=config)
        return engine

    def steps(self, engine: Any, count: int, start: int = 0) -> list[float]:
        """Losses of `count` micro batches, from the batch number `start` on."""
        losses = []
        for tokens, following in self.text.batches(start + count, CONTEXT)[start:]:
            mine = slice(self.rank * BATCH, (self.rank + 1) * BATCH)
            loss = engine(tokens[mine].to(self.device), following[mine].to(self.device))
            engine.backward(loss)
            engine.step()
            losses.append(loss.item())
        return losses


def scenario(*cases: Case) -> Callable[[Callable[[Run, Case], list[float]]], None]:
    """Register a function once for each case."""

    def register(function: Callable[[Run, Case], list[float]]) -> None:
        for case in cases:
            SCENARIOS[f"{function.__name__}-{case}"] = lambda run, case=case: function(run, case)

    return register


ZERO = tuple(Case(stage, "bf16") for stage in (0, 1, 2, 3))
OFFLOAD = Case(2, "bf16", offload=True)


@scenario(*ZERO, OFFLOAD)
def accumulation(run: Run, case: Case) -> list[float]:
    """Two micro batches a step."""
    config = case.config(run.processes)
    config["gradient_accumulation_steps"] = 2
    config["train_batch_size"] *= 2
    engine = run.engine(model(run.text), config)
    losses = run.steps(engine, 6)
    assert engine.global_steps == 3
    engine.destroy()
    return losses


@scenario(*ZERO)
def several_groups(run: Run, case: Case) -> list[float]:
    """No weight decay for what has one dimension; the other group learns more slowly."""
    network = model(run.text)
    flat = [p for p in network.parameters() if p.dim() < 2]
    rest = [p for p in network.parameters() if p.dim() >= 2]
    groups = [{"params": flat, "weight_decay": 0.0}, {"params": rest, "lr": LR / 2}]
    engine = run.engine(network, case.config(run.processes), groups)
    losses = run.steps(engine, 4)
    engine.destroy()
    return losses


class Odd(LanguageModel):
    """With frozen params and, where DeepSpeed can, params of no elements."""

    def __init__(self, like: LanguageModel, empty: bool) -> None:
        nn.Module.__init__(self)
        self.__dict__["_modules"].update(like._modules)
        self.position.weight.requires_grad_(False)
        self.nothing = nn.Parameter(torch.zeros(0, like.token.weight.shape[1])) if empty else None

    def forward(self, tokens: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        loss = super().forward(tokens, following)
        return loss if self.nothing is None else loss + self.nothing.sum()


@scenario(*ZERO)
def frozen_and_tied(run: Run, case: Case) -> list[float]:
    network = Odd(model(run.text), empty=False)
    before = network.position.weight.detach().clone()
    trained = [p for p in network.parameters() if p.requires_grad]
    engine = run.engine(network, case.config(run.processes), trained)
    losses = run.steps(engine, 4)
    if case.stage < 3:
        after = network.position.weight.detach().float().cpu()
        assert torch.equal(after, before.to(torch.bfloat16).float())
    engine.destroy()
    return losses


# DeepSpeed's ZeRO 3 refuses such params itself, on any device.
@scenario(*(Case(stage, "fp32") for stage in (0, 1, 2)))
def empty_params(run: Run, case: Case) -> list[float]:
    engine = run.engine(Odd(model(run.text), empty=True), case.config(run.processes))
    losses = run.steps(engine, 3)
    engine.destroy()
    return losses


class Checkpointed(LanguageModel):
    """Its blocks are run again in backward."""

    how = ""

    def forward(self, tokens: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        import deepspeed

        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            if self.how == "torch":
                x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
            elif self.how == "reentrant":
                x = deepspeed.checkpointing.checkpoint(block, x)
            else:
                x = deepspeed.checkpointing.non_reentrant_checkpoint(block, x)
        scores = nn.functional.linear(self.norm(x), self.token.weight)
        return nn.functional.cross_entropy(scores.flatten(0, 1).float(), following.flatten())


def _checkpointing(run: Run, case: Case, how: str, on_cpu: bool) -> list[float]:
    import deepspeed

    # DeepSpeed cannot offload from the CPU to the CPU; there is nothing that it would change.
    on_cpu = on_cpu and run.device != "cpu"
    config = case.config(run.processes)
    config["activation_checkpointing"] = {"cpu_checkpointing": on_cpu}
    network = model(run.text)
    network.__class__ = type("Checkpointed", (Checkpointed,), {"how": how})
    deepspeed.checkpointing.reset()
    engine = run.engine(network, config)
    deepspeed.checkpointing.configure(None, checkpoint_in_cpu=on_cpu)
    losses = run.steps(engine, 3)
    engine.destroy()
    return losses


@scenario(Case(1, "bf16"), Case(3, "bf16"))
def checkpointing_by_torch(run: Run, case: Case) -> list[float]:
    return _checkpointing(run, case, "torch", on_cpu=False)


@scenario(Case(2, "bf16"))
def checkpointing_reentrant(run: Run, case: Case) -> list[float]:
    return _checkpointing(run, case, "reentrant", on_cpu=False)


@scenario(Case(2, "bf16"))
def checkpointing_reentrant_on_the_cpu(run: Run, case: Case) -> list[float]:
    return _checkpointing(run, case, "reentrant", on_cpu=True)


@scenario(Case(2, "bf16"))
def checkpointing_non_reentrant(run: Run, case: Case) -> list[float]:
    return _checkpointing(run, case, "non-reentrant", on_cpu=False)


@scenario(Case(2, "bf16"))
def checkpointing_non_reentrant_on_the_cpu(run: Run, case: Case) -> list[float]:
    return _checkpointing(run, case, "non-reentrant", on_cpu=True)


@scenario(*ZERO, OFFLOAD, Case(2, "fp16"), Case(3, "fp32"))
def save_and_resume(run: Run, case: Case) -> list[float]:
    """Three steps, saved; another engine goes on, and equals the run that was not broken."""
    import deepspeed.comm as dist

    folder = run.folder / f"saved-{case}-{run.device}"
    unbroken = run.engine(model(run.text), case.config(run.processes))
    losses = run.steps(unbroken, 6)
    unbroken.destroy()
    first = run.engine(model(run.text), case.config(run.processes))
    assert run.steps(first, 3) == losses[:3]
    first.save_checkpoint(str(folder))
    first.destroy()
    dist.barrier()
    torch.manual_seed(99)
    fresh = model(run.text)
    with torch.no_grad():
        for p in fresh.parameters():
            p.add_(1)  # what is loaded has to replace it
    second = run.engine(fresh, case.config(run.processes))
    second.load_checkpoint(str(folder))
    resumed = run.steps(second, 3, start=3)
    second.destroy()
    dist.barrier()
    if run.rank == 0:
        shutil.rmtree(folder)
    assert resumed == losses[3:], (resumed, losses)
    return losses


@scenario(Case(1, "bf16"), Case(2, "bf16"))
def muon(run: Run, case: Case) -> list[float]:
    """DeepSpeed's Muon for matrices, Adam for the rest, made from the configuration."""
    import deepspeed

    config = case.config(run.processes)
    config["optimizer"] = {"type": "Muon", "params": {"lr": LR, "weight_decay": 0.1}}
    network = model(run.text)
    for name, p in network.named_parameters():
        p.use_muon = p.dim() == 2 and "blocks" in name
    engine, *_ = deepspeed.initialize(
        model=network, model_parameters=network.parameters(), config=config
    )
    losses = run.steps(engine, 3)
    engine.destroy()
    return losses
