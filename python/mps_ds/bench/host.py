"""A step of Adam on the CPU: CPUAdam and cpu_adam_ beside torch.optim.AdamW's three ways."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import torch

from .adam import NEEDS_BF16, NEEDS_FP32, peers
from .cases import (
    LR,
    NAMES,
    WEIGHT_DECAY,
    Case,
    Contestant,
    means_of,
    new_states,
    parameters,
    states_of,
    torch_adamw,
)
from .shapes import Shapes

GROUP = "cpu"


def cases(lists: Iterable[Shapes]) -> list[Case]:
    """float32, and bfloat16 with float32 states."""
    return [
        Case(
            GROUP,
            f"{NAMES[dtype]}-{shapes.name}",
            f"CPU Adam, {NAMES[dtype]}",
            shapes,
            needs * shapes.elements,
            partial(make, shapes, dtype),
        )
        for shapes in lists
        for dtype, needs in ((torch.float32, NEEDS_FP32), (torch.bfloat16, NEEDS_BF16))
    ]


def make(shapes: Shapes, dtype: torch.dtype, device: str) -> dict[str, Contestant]:
    """States are float32 with us; torch's have the params' dtype."""
    from mps_ds.ops.cpu_adam import cpu_adam_
    from mps_ds.optim import CPUAdam

    params = parameters(shapes, device, dtype)
    ours = CPUAdam(params, lr=LR, weight_decay=WEIGHT_DECAY)
    ours.step()
    states = states_of(ours, params)
    grads = [param.grad for param in params if param.grad is not None]
    exp_avgs, exp_avg_sqs = means_of(states)

    def operation() -> None:
        cpu_adam_(params, grads, exp_avgs, exp_avg_sqs, 2, lr=LR, weight_decay=WEIGHT_DECAY)

    exact = dtype == torch.float32
    least = (28 if exact else 22) * shapes.elements
    theirs = torch_adamw(params, states if exact else new_states(params))
    return {
        "mps_ds CPUAdam": Contestant(ours.step, least, ours=True),
        "mps_ds cpu_adam_": Contestant(operation, least, ours=True),
    } | peers(theirs, (28 if exact else 14) * shapes.elements)
