"""What CPUAdam refuses, and how it takes over a state."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from ._options import adopt_means, check_betas_and_eps


def check_options(group: dict[str, Any]) -> None:
    """Raise ValueError for options that no step can honour."""
    lr = group["lr"]
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError(f"lr is a tensor of {lr.numel()} elements; it must have one")
    if not 0.0 <= float(lr) < math.inf:
        raise ValueError(f"Invalid learning rate: {lr}; it must be finite and >= 0")
    check_betas_and_eps(group)
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
    adopt_means(state, param, group, name, ("exp_avg", "exp_avg_sq"))
