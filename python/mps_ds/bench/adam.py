"""A step of Adam on the device: FusedAdam beside torch.optim.AdamW's three ways."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from .cases import (
    LR,
    WEIGHT_DECAY,
    Case,
    Contestant,
    cases_of,
    means_of,
    new_states,
    parameters,
    states_of,
    torch_adamw,
)
from .shapes import Shapes

GROUP = "adam"
# params, gradients and states, and what torch's foreach allocates while it steps.
NEEDS_FP32 = 16 + 8
# The same, with states in float32 and bfloat16 for us and in bfloat16 for torch.
NEEDS_BF16 = 4 + 8 + 4 + 4 + 4


def cases(lists: Iterable[Shapes]) -> list[Case]:
    """float32, and bfloat16 with float32 states."""
    return cases_of(
        GROUP,
        lists,
        [
            ("fp32", "Adam fp32", NEEDS_FP32, fp32),
            ("bf16", "Adam, bf16 params and gradients", NEEDS_BF16, bf16),
        ],
    )


def fp32(shapes: Shapes, device: str) -> dict[str, Contestant]:
    """All on the same params, gradients and states; the operation also without a plan."""
    from mps_ds.ops import adam_
    from mps_ds.optim import FusedAdam

    least = 28 * shapes.elements
    params = parameters(shapes, device, torch.float32)
    ours = FusedAdam(params, lr=LR, weight_decay=WEIGHT_DECAY)
    ours.step()
    states = states_of(ours, params)
    grads = [param.grad for param in params if param.grad is not None]
    exp_avgs, exp_avg_sqs = means_of(states)

    def operation() -> None:
        adam_(params, grads, exp_avgs, exp_avg_sqs, 2, lr=LR, weight_decay=WEIGHT_DECAY)

    contestants = {
        "mps_ds FusedAdam": Contestant(ours.step, least, ours=True),
        "mps_ds adam_, new tables": Contestant(operation, least, ours=True),
    }
    return contestants | peers(torch_adamw(params, states), least)


def bf16(shapes: Shapes, device: str) -> dict[str, Contestant]:
    """torch keeps states in the params' dtype: it moves less, and rounds them at each step."""
    from mps_ds.optim import FusedAdam

    params = parameters(shapes, device, torch.bfloat16)
    exact = FusedAdam(params, lr=LR, weight_decay=WEIGHT_DECAY)
    alike = FusedAdam(params, lr=LR, weight_decay=WEIGHT_DECAY, state_dtype=torch.bfloat16)
    least = 14 * shapes.elements
    contestants = {
        "mps_ds FusedAdam, fp32 states": Contestant(exact.step, 22 * shapes.elements, ours=True),
        "mps_ds FusedAdam, bf16 states": Contestant(alike.step, least, ours=True),
    }
    named = {
        f"{name}, bf16 states": contestant
        for name, contestant in peers(torch_adamw(params, new_states(params)), least).items()
    }
    return contestants | named


def peers(optimizers: Mapping[str, torch.optim.AdamW], least: int) -> dict[str, Contestant]:
    """Their plain steps."""
    return {name: Contestant(each.step, least) for name, each in optimizers.items()}
