"""Watches the steps of a FusedAdam, whoever calls it, and holds each one to what it should be.

From the params, gradients and states that a step finds, it must get

- to the float64 step, within the bound of docs/numerics.md (adam_reference.py);
- to where torch.optim.AdamW gets, on the same device and on the CPU, within both errors together.

Each step is judged by itself, so nothing of what training makes of rounding is in the bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from adam_reference import Options, Values, adam, assert_step, assert_within

UNIT = {"cpu": 2.0**-24, "mps": 6 * 2.0**-24}
"""The error of one operation of torch's: half an ulp; or 3 ulp, which is what Metal promises of
square roots (and 2.5 of divisions) where math is fast."""


@dataclass
class Before:
    """A param, and what is beside it, before a step; on the CPU."""

    param: torch.Tensor
    grad: torch.Tensor
    exp_avg: torch.Tensor
    exp_avg_sq: torch.Tensor

    def arrays(self) -> list[np.ndarray]:
        return [t.double().numpy() for t in vars(self).values()]


class StepJudge:
    """Judges every step of `optimizer` from now on.

    Attributes:
        learning_rates: of the first group, a step.
        norms: of all gradients together, a step.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.learning_rates: list[float] = []
        self.norms: list[float] = []
        self._taken: dict[torch.Tensor, int] = {}
        self._before: dict[torch.Tensor, Before] = {}
        optimizer.register_step_pre_hook(self._look)
        optimizer.register_step_post_hook(self._judge)

    @property
    def steps(self) -> int:
        return len(self.norms)

    def _look(self, optimizer, args, kwargs) -> None:
        for param, state in optimizer.state.items():  # from a checkpoint: it is counted on from
            self._taken.setdefault(param, int(state.get("step", 0)))
        self._before = {
            param: Before(*(copied(t) for t in (param, param.grad, *states(optimizer, param))))
            for group in optimizer.param_groups
            for param in group["params"]
            if param.grad is not None
        }
        self.learning_rates.append(float(optimizer.param_groups[0]["lr"]))
        squares = sum(float(b.grad.double().square().sum()) for b in self._before.values())
        self.norms.append(squares**0.5)

    def _judge(self, optimizer, args, kwargs) -> None:
        assert self._before
        for group in optimizer.param_groups:
            options = Options(
                lr=float(group["lr"]),
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                eps=group["eps"],
                weight_decay=group["weight_decay"],
            )
            for param in group["params"]:
                if param in self._before:
                    self._judge_one(optimizer, param, options)

    def _judge_one(self, optimizer, param, options: Options) -> None:
        before = self._before[param]
        step = self._taken[param] = self._taken.get(param, 0) + 1
        assert int(optimizer.state[param]["step"]) == step
        got = [copied(t) for t in (param, *states(optimizer, param))]
        assert_step(got, before.arrays(), step, options)

        p, g, m, v = before.arrays()
        ours = adam(Values(p, m, v), g, step, options).allowed
        for device in {param.device.type, "cpu"}:
            theirs = adamw_error(before, step, options, UNIT[device])
            for name, tensor, other, *allowed in zip(
                Values._fields, got, adamw(before, step, options, device), ours, theirs, strict=True
            ):
                other = other.detach().cpu().double().numpy()
                assert_within(tensor.numpy(), other, sum(allowed), f"{name}, AdamW on {device}, ")


def copied(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to("cpu", copy=True)


def states(optimizer, param) -> list[torch.Tensor]:
    """exp_avg and exp_avg_sq; zeros before the first step."""
    state = optimizer.state[param]
    zeros = torch.zeros_like(param, dtype=torch.float32)
    return [state.get(name, zeros) for name in ("exp_avg", "exp_avg_sq")]


def adamw(before: Before, step: int, o: Options, device: str) -> list[torch.Tensor]:
    """Param, exp_avg, exp_avg_sq after the same step of torch.optim.AdamW."""
    param, grad, exp_avg, exp_avg_sq = (t.to(device, copy=True) for t in vars(before).values())
    param.grad = grad
    betas = (o.beta1, o.beta2)
    optimizer = torch.optim.AdamW([param], o.lr, betas, o.eps, o.weight_decay)
    taken = torch.tensor(float(step - 1))
    optimizer.state[param] = {"step": taken, "exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq}
    optimizer.step()
    return [param, exp_avg, exp_avg_sq]


def adamw_error(before: Before, step: int, o: Options, unit: float) -> Values:
    """How far AdamW's own operations may take it from float64, each off by `unit`, relatively.

    Counted in its source, to first order, with one more for what is left out:
    exp_avg       lerp_: weight, difference, product, sum               4 of |m| + (1 - b1)|g|
    exp_avg_sq    mul_, addcmul_: both constants, 3 products, sum       6 of the result
    denominator   half of exp_avg_sq, root, constant, division, eps, +  8 of the denominator
    param         decay: constant, product; addcdiv_: sum               3 of |p|
                  addcdiv_: constant, product, division, sum            4 of the update
    """
    param, grad, exp_avg, exp_avg_sq = before.arrays()
    terms = np.abs(exp_avg) + (1 - o.beta1) * np.abs(grad)
    new_avg_sq = o.beta2 * exp_avg_sq + (1 - o.beta2) * grad**2
    denominator = np.sqrt(new_avg_sq / (1 - o.beta2**step)) + o.eps
    update = o.lr / (1 - o.beta1**step) * terms / denominator
    tiny = 2.0**-126  # results that are subnormal
    return Values(
        unit * (4 * np.abs(param) + (4 + 8 + 4 + 1) * update) + tiny,
        unit * 5 * terms + tiny,
        unit * 7 * new_avg_sq + tiny,
    )
