"""A small transformer on real text: the Trainer with our plugin, with Lightning's own, and no
Trainer at all train it alike, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from straight import assert_same
from trainers import QUIET

from mps_ds.optim import FusedAdam
from mps_ds.selftest.gpt import GPT, Shape
from mps_ds.selftest.training import Text

pytestmark = pytest.mark.slow

STEPS = 80
CLIP = 0.01  # by value, which all three do exactly; of the order of the larger gradients


def new_gpt(text: Text) -> GPT:
    torch.manual_seed(0)
    return GPT(Shape(len(text.characters)))


def new_scaler() -> torch.amp.GradScaler:
    return torch.amp.GradScaler("mps", init_scale=2.0**24, growth_interval=5)


def new_adam(model: torch.nn.Module) -> FusedAdam:
    return FusedAdam(model.parameters(), lr=3e-3, capturable=True)  # as `trainers.adam`


def batches(text: Text) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return text.batches(STEPS, Shape(0).context)


def by_hand(text: Text) -> tuple[list[float], list[torch.Tensor], dict[str, Any]]:
    model = new_gpt(text).to("mps")
    optimizer, scaler, losses = new_adam(model), new_scaler(), []
    for tokens, following in batches(text):
        with torch.autocast("mps", dtype=torch.float16, cache_enabled=False):
            loss = model.loss(tokens.to("mps"), following.to("mps"))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_value_(model.parameters(), CLIP)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses, [p.detach().cpu() for p in model.parameters()], scaler.state_dict()


def by_trainer(pl: Any, lit: Any, text: Text, fold: str):
    class Module(pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.gpt = new_gpt(text)
            self.losses: list[torch.Tensor] = []

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            loss = self.gpt.loss(*batch)
            self.losses.append(loss.detach())
            return loss

        def configure_optimizers(self) -> FusedAdam:
            return new_adam(self.gpt)

    module = Module()
    plugin = lit.MixedPrecision("16-mixed", scaler=new_scaler(), fold=fold)
    clip = {"gradient_clip_val": CLIP, "gradient_clip_algorithm": "value"}
    trainer = pl.Trainer(accelerator="mps", max_epochs=1, plugins=[plugin], **clip, **QUIET)
    trainer.fit(module, torch.utils.data.DataLoader(batches(text), batch_size=None))  # type: ignore[arg-type]
    losses = [float(loss) for loss in module.losses]
    return losses, [p.detach().cpu() for p in module.parameters()], plugin.state_dict()


def test_a_gpt_is_trained_alike_in_three_ways(pl, lit):
    text = Text()
    losses, params, scaler = by_hand(text)
    for fold in ("never", "auto"):
        told, others, state = by_trainer(pl, lit, text, fold)
        assert told == losses
        assert_same(others, params)
        assert state == scaler
    assert scaler["scale"] != 2.0**24  # some steps were skipped
    # Below what the frequencies of letters alone allow: it has learnt from their order.
    assert sum(losses[-5:]) / 5 < text.letter_entropy()
