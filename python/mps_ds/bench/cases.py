"""What a comparison is: contestants that do the same work on the same tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .shapes import Shapes

Work = Callable[[], object]
LR, WEIGHT_DECAY = 1e-4, 0.01
BYTES = {torch.float32: 4, torch.float16: 2, torch.bfloat16: 2}
NAMES = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}


@dataclass(frozen=True)
class Contestant:
    """One way to do the work.

    Attributes:
        work: one call of it; waits for nothing, unless that is its way.
        least_bytes: what it cannot help reading and writing. Time and copy bandwidth give its share
            of the bandwidth.
        ours: it is of mps_ds.
    """

    work: Work
    least_bytes: int
    ours: bool = False


@dataclass(frozen=True)
class Case:
    """A comparison. The first contestant is ours; ratios are the others' cost by its cost.

    Attributes:
        group: what --only chooses.
        name: unique in its group.
        title: for people.
        shapes: of the tensors worked on.
        needs: bytes that it has allocated at most, temporaries of the contestants included.
        make: makes the tensors on a device, and the contestants.
    """

    group: str
    name: str
    title: str
    shapes: Shapes
    needs: int
    make: Callable[[str], Mapping[str, Contestant]]


Kind = tuple[str, str, int, Callable[[Shapes, str], Mapping[str, Contestant]]]
"""Name, title, bytes an element, and what makes the contestants."""


def cases_of(group: str, lists: Iterable[Shapes], kinds: Sequence[Kind]) -> list[Case]:
    """Each kind over each list of shapes."""
    return [
        Case(
            group,
            f"{name}-{shapes.name}",
            title,
            shapes,
            needs * shapes.elements,
            partial(make, shapes),
        )
        for shapes in lists
        for name, title, needs, make in kinds
    ]


def tensors(shapes: Shapes, device: str, dtype: torch.dtype, scale: float = 1.0) -> list[Tensor]:
    """Random tensors, each in memory of its own."""
    return [torch.randn(*s, device=device, dtype=dtype).mul_(scale) for s in shapes.shapes]


def parameters(shapes: Shapes, device: str, dtype: torch.dtype) -> list[nn.Parameter]:
    """Parameters with gradients."""
    params = [nn.Parameter(value) for value in tensors(shapes, device, dtype, 0.1)]
    for param, grad in zip(params, tensors(shapes, device, dtype, 0.01), strict=True):
        param.grad = grad
    return params


States = Sequence[Mapping[str, Tensor]]
KINDS: dict[str, dict[str, Any]] = {
    "torch AdamW, fused": {"fused": True},
    "torch AdamW, foreach": {"foreach": True},
    "torch AdamW, for-loop": {"foreach": False},
}


def states_of(optimizer: torch.optim.Optimizer, params: Sequence[nn.Parameter]) -> States:
    """exp_avg and exp_avg_sq of each parameter, as `optimizer` keeps them."""
    names = ("exp_avg", "exp_avg_sq")
    return [{name: optimizer.state[param][name] for name in names} for param in params]


def means_of(states: States) -> tuple[list[Tensor], list[Tensor]]:
    """The lists that the operations take: exp_avgs, exp_avg_sqs."""
    return [state["exp_avg"] for state in states], [state["exp_avg_sq"] for state in states]


def new_states(params: Sequence[nn.Parameter]) -> States:
    """States of the parameters' own dtype, as torch's optimizers make them."""
    return [
        {name: torch.zeros_like(param).detach() for name in ("exp_avg", "exp_avg_sq")}
        for param in params
    ]


def torch_adamw(
    params: Sequence[nn.Parameter], states: States, kinds: Mapping[str, dict[str, Any]] = KINDS
) -> dict[str, torch.optim.AdamW]:
    """PyTorch's ways to step; all share the states, so that memory does not limit the sizes."""
    optimizers = {}
    for name, options in kinds.items():
        optimizer = torch.optim.AdamW(params, lr=LR, weight_decay=WEIGHT_DECAY, **options)
        for param, state in zip(params, states, strict=True):
            # Where torch keeps it: beside the parameter for its fused step, else on the CPU.
            where = param.device if options.get("fused") else "cpu"
            optimizer.state[param] = {"step": torch.tensor(1.0, device=where), **state}
        optimizers[name] = optimizer
    return optimizers
