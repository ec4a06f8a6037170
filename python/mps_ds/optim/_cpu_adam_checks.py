"""What CPUAdam refuses, and how it takes over a state."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

_SMALLEST_EPS = 2.0**-126  # a smaller one is subnormal


def check_options(group: dict[str, Any]) -> None:
    """Raise ValueError for options that no step can honour."""
    lr, betas = group["lr"], group["betas"]
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError(f"lr is a tensor of {lr.numel()} elements; it must have one")
    if not 0.0 <= float(lr) < math.inf:
        raise ValueError(f"Invalid learning rate: {lr}; it must be finite and >= 0")
    if len(betas) != 2:
        raise ValueError(f"Invalid betas: {betas}; there must be two")
    for index, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {index}: {beta}; must be in [0, 1)")
    if group["eps"] != 0.0 and not _SMALLEST_EPS <= group["eps"] < math.inf:
        raise ValueError(
            f"Invalid epsilon value: {group['eps']}; it must be 0, or finite and at least 1.2e-38"
        )
    if not math.isfinite(group["weight_decay"]):
        raise ValueError(f"Invalid weight_decay value: {group['weight_decay']}; it must be finite")


def check_plain(params: list[Tensor], grads: list[Tensor]) -> None:
    """Raise RuntimeError for parameters whose memory does not hold their values."""
    tensors = [*params, *grads]
    for kind in set(map(type, tensors)):
        if kind.__torch_dispatch__ is not Tensor.__torch_dispatch__:  # type: ignore[attr-defined]
            index = next(i for i, t in enumerate(tensors) if type(t) is kind) % len(params)
            raise RuntimeError(
                f"params[{index}] or its grad is a {kind.__name__}; accepted are plain tensors"
            )
    if any(map(Tensor.is_neg, tensors)):
        index = next(i for i, t in enumerate(tensors) if t.is_neg()) % len(params)
        raise RuntimeError(
            f"params[{index}] or its grad is a lazily negated view; accepted are plain tensors"
        )


def adopt_state(state: dict[str, Any], param: Tensor, group: dict[str, Any], name: str) -> None:
    """Check a loaded state, and make its step count an int."""
    for key in ("exp_avg", "exp_avg_sq"):
        if key not in state:
            raise ValueError(f"the {name} has no {key!r}; it has {sorted(state)}")
        if state[key].shape != param.shape:
            raise ValueError(
                f"{key!r} in the {name} has shape {tuple(state[key].shape)}, "
                f"the parameter has {tuple(param.shape)}"
            )
    # Without one: older versions of DeepSpeed and apex have kept it in the group.
    step = float(state.get("step", group.get("step", 0)))
    if not step.is_integer() or step < 0:
        raise ValueError(f"'step' in the {name} is {step}; it must be a whole number >= 0")
    state["step"] = int(step)
