"""The bound of the self test's training run: rounding keeps it, a wrong Adam does not."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from mps_ds.selftest.gpt import GPT
from mps_ds.selftest.training import LOSS_BOUND, STEPS, Text, train

TEXT = Text()


class WrongAdamW(torch.optim.Optimizer):
    """AdamW with one mistake."""

    def __init__(
        self, params: Iterable[Tensor], lr: float, weight_decay: float, mistake: str
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})
        self.mistake = mistake

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        (group,) = self.param_groups
        for p in group["params"]:
            state = self.state[p]
            if not state:
                state.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
            state["t"] += 1
            t = state["t"] + (self.mistake == "step count off by one")
            if self.mistake != "no weight decay":
                p.mul_(1 - group["lr"] * group["weight_decay"])
            beta1, beta2, eps = 0.9, 0.999, 1e-8
            if self.mistake == "epsilon of 1e-6":
                eps = 1e-6
            if self.mistake == "beta2 of 0.99":
                beta2 = 0.99
            m, v = state["m"].lerp_(p.grad, 1 - beta1), state["v"]
            v.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
            if self.mistake == "no bias correction":
                p.addcdiv_(m, v.sqrt() + eps, value=-group["lr"])
            else:
                denominator = (v / (1 - beta2**t)).sqrt() + eps
                p.addcdiv_(m, denominator, value=-group["lr"] / (1 - beta1**t))


@cache
def expected() -> tuple[float, ...]:
    return tuple(train(torch.optim.AdamW, TEXT, device="cpu"))


def difference(losses: list[float]) -> float:
    return max(abs(a - b) for a, b in zip(losses, expected(), strict=True))


def two_ulp_each_step(step: int, model: GPT) -> None:
    generator = torch.Generator().manual_seed(step)
    for p in model.parameters():
        ulps = torch.randint(-2, 3, p.shape, generator=generator)
        p.data += ulps * torch.finfo(p.dtype).eps * p.detach().abs()


def one_ulp_at_the_start(step: int, model: GPT) -> None:
    if step == 0:
        for p in model.parameters():
            p.data = torch.nextafter(p.data, torch.full_like(p, torch.inf))


@pytest.mark.parametrize("disturb", [two_ulp_each_step, one_ulp_at_the_start])
def test_rounding_moves_the_losses_by_a_fifth_of_the_bound_at_most(
    disturb: Callable[[int, GPT], None],
) -> None:
    losses = train(torch.optim.AdamW, TEXT, device="cpu", after_step=disturb)
    assert 0 < difference(losses) <= LOSS_BOUND / 5


def test_the_same_formula_in_other_operations_keeps_the_bound() -> None:
    losses = train(lambda *a, **k: WrongAdamW(*a, **k, mistake="none"), TEXT, device="cpu")
    assert difference(losses) <= LOSS_BOUND / 5


@pytest.mark.parametrize(
    "mistake",
    [
        "no bias correction",
        "step count off by one",
        "no weight decay",
        "epsilon of 1e-6",
        "beta2 of 0.99",
    ],
)
def test_a_wrong_adam_breaks_the_bound_a_hundred_times_over(mistake: str) -> None:
    losses = train(lambda *a, **k: WrongAdamW(*a, **k, mistake=mistake), TEXT, device="cpu")
    assert difference(losses) >= 100 * LOSS_BOUND


def test_the_model_learns_more_than_letter_frequencies() -> None:
    assert len(expected()) == STEPS
    assert sum(expected()[-10:]) / 10 < TEXT.letter_entropy() < expected()[0]


def test_the_text_is_whole() -> None:
    assert TEXT.text.startswith("THE FIRST BOOK OF OPTICKS")
    assert len(TEXT.text.encode()) < 200_000
