"""A training run with Accelerate, of a small model on real text."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from accelerate import Accelerator, skip_first_batches
from accelerate.state import AcceleratorState, GradientState
from accelerate.utils import GradScalerKwargs
from step_judge import copied

from mps_ds.optim import FusedAdam
from mps_ds.selftest.gpt import GPT, Shape
from mps_ds.selftest.training import Text

LR, STEPS, ACCUMULATED = 1e-2, 6, 2
SCALE = 2.0**10


class Model(torch.nn.Module):
    """A small GPT with dropout before it scores."""

    def __init__(self, seed: int, dropout: float) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.gpt = GPT(Shape(len(Text().characters), context=12, width=16, heads=2, layers=1))
        self.gpt.norm = torch.nn.Sequential(self.gpt.norm, torch.nn.Dropout(dropout))

    def forward(self, excerpt: torch.Tensor) -> torch.Tensor:
        return self.gpt.loss(excerpt[:, :-1], excerpt[:, 1:])


@dataclass
class Run:
    """A training with Accelerate, as its documentation writes the loop."""

    precision: str
    make_optimizer: type = FusedAdam
    options: dict = field(default_factory=dict)
    seed: int = 0
    dropout: float = 0.0
    folded: float | None = None  # max_norm of FusedAdam's own unscaling and clipping
    taken: int = 0

    def __post_init__(self) -> None:
        AcceleratorState._reset_state(reset_partial_state=True)
        GradientState._reset_state()
        self.accelerator = Accelerator(
            mixed_precision={"fp32": "no"}.get(self.precision, self.precision),
            gradient_accumulation_steps=ACCUMULATED,
            kwargs_handlers=[GradScalerKwargs(init_scale=SCALE, growth_interval=4)],
        )
        assert self.accelerator.device.type == "mps"
        module = Model(self.seed, self.dropout)
        optimizer = self.make_optimizer(module.parameters(), **{"lr": LR, **self.options})
        excerpts = Text().tokens[: 13 * 4 * ACCUMULATED * STEPS].view(-1, 13)
        scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=STEPS)
        self.inner, self.module = optimizer, module
        self.model, self.optimizer, self.loader, self.scheduler = self.accelerator.prepare(
            module, optimizer, torch.utils.data.DataLoader(excerpts, batch_size=4), scheduler
        )
        self.losses: list[float] = []
        self.skipped: list[bool] = []
        self.rates: list[float] = []

    def train(self, steps: int = STEPS, clip=None, poisoned: int | None = None) -> Run:
        """`clip` is called with accelerator and params; step `poisoned` finds an overflow."""
        loader = skip_first_batches(self.loader, self.taken * ACCUMULATED)
        last = self.taken + steps
        for _, excerpt in zip(range(steps * ACCUMULATED), loader, strict=False):
            with self.accelerator.accumulate(self.model):
                loss = self.model(excerpt)
                self.accelerator.backward(loss)
                self.losses.append(loss.item())
                if self.accelerator.sync_gradients:
                    if self.taken == poisoned:
                        next(self.module.parameters()).grad[0, 0] = math.inf
                    if clip is not None:
                        clip(self.accelerator, self.module.parameters())
                self.step()
                self.scheduler.step()
                self.optimizer.zero_grad()
                if self.accelerator.sync_gradients:
                    self.taken += 1
                    self.skipped.append(self.accelerator.optimizer_step_was_skipped)
                    self.rates.append(float(self.inner.param_groups[0]["lr"]))
        assert self.taken == last
        return self

    def step(self) -> None:
        if self.folded is None:
            self.optimizer.step()
        elif self.accelerator.sync_gradients:
            self.optimizer.optimizer.step(scaler=self.accelerator.scaler, max_norm=self.folded)
            if self.accelerator.scaler is not None:
                self.accelerator.scaler.update()

    def everything(self) -> list[torch.Tensor]:
        """Params and states, on the CPU."""
        params = list(self.module.parameters())
        values = [v for p in params for v in self.inner.state.get(p, {}).values()]
        return [copied(torch.as_tensor(tensor).float()) for tensor in (*params, *values)]
