"""Norms, overflow checks, unscaling and clipping of gradients, beside PyTorch's functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch import Tensor

from .cases import BYTES, NAMES, Case, Contestant, Work, tensors
from .shapes import Shapes

GROUP = "norms"
Works = Callable[[list[Tensor]], dict[str, Work]]
DTYPES = (torch.float32, torch.bfloat16)
SHRINK = 0.99
"""Each clip asks for a norm smaller by this factor, so that every call has something to scale."""


def cases(lists: Iterable[Shapes]) -> list[Case]:
    """Each operation for each dtype."""
    kinds = {
        "norm": ("norm", 1, norm),
        "overflow": ("overflow check", 1, overflow),
        "both": ("norm and overflow check", 1, both),
        "unscale": ("overflow check and unscaling", 2, unscale),
        "clip": ("clip_grad_norm_", 3, clip),
    }
    return [
        Case(
            GROUP,
            f"{name}-{NAMES[dtype]}-{shapes.name}",
            f"{title}, {NAMES[dtype]}",
            shapes,
            # The gradients, and what torch's functions make of them on the way.
            3 * BYTES[dtype] * shapes.elements,
            partial(make, shapes, dtype, passes, works),
        )
        for shapes in lists
        for dtype in DTYPES
        for name, (title, passes, works) in kinds.items()
    ]


def make(
    shapes: Shapes, dtype: torch.dtype, passes: int, works: Works, device: str
) -> dict[str, Contestant]:
    """`passes`: how often the work must read or write the gradients. Its first way is ours."""
    least = passes * BYTES[dtype] * shapes.elements
    named = works(tensors(shapes, device, dtype, 0.01))
    return {
        name: Contestant(work, least, ours=index == 0)
        for index, (name, work) in enumerate(named.items())
    }


def norm(grads: list[Tensor]) -> dict[str, Work]:
    """The 2-norm of all."""
    from mps_ds.ops import multi_tensor_l2norm

    total = torch.nn.utils.get_total_norm
    return {
        "mps_ds multi_tensor_l2norm": lambda: multi_tensor_l2norm(grads),
        "torch get_total_norm": lambda: total(grads),
        "torch get_total_norm, for-loop": lambda: total(grads, foreach=False),
    }


def overflow(grads: list[Tensor]) -> dict[str, Work]:
    """Whether an element is infinite or NaN; GradScaler's function also multiplies, here by 1."""
    from mps_ds.ops import multi_tensor_non_finite

    return {
        "mps_ds multi_tensor_non_finite": lambda: multi_tensor_non_finite(grads),
        "torch GradScaler's check": scaler_check(grads, 1.0),
    }


def scaler_check(grads: list[Tensor], inv_scale: float) -> Work:
    """The function behind `torch.amp.GradScaler.unscale_`."""
    found_inf = torch.zeros(1, device=grads[0].device)
    factor = torch.full((1,), inv_scale, device=grads[0].device)
    check = torch._amp_foreach_non_finite_check_and_unscale_
    return lambda: check(grads, found_inf, factor)


def both(grads: list[Tensor]) -> dict[str, Work]:
    """One read against one call for each."""
    from mps_ds.ops import norm_and_non_finite

    check = scaler_check(grads, 1.0)
    return {
        "mps_ds norm_and_non_finite": lambda: norm_and_non_finite(grads),
        "torch check, get_total_norm": lambda: (check(), torch.nn.utils.get_total_norm(grads)),
    }


def unscale(grads: list[Tensor]) -> dict[str, Work]:
    """A factor other than 1, on the device."""
    from mps_ds.ops import multi_tensor_unscale_

    found_inf = torch.zeros((), device=grads[0].device)
    factor = torch.full((), SHRINK, device=grads[0].device)
    return {
        "mps_ds multi_tensor_unscale_": lambda: multi_tensor_unscale_(grads, found_inf, factor),
        "torch GradScaler's unscaling": scaler_check(grads, SHRINK),
    }


def clip(grads: list[Tensor]) -> dict[str, Work]:
    """Every call scales: it asks for a norm below what the last one left."""
    from mps_ds.ops import clip_grad_norm_

    theirs = torch.nn.utils.clip_grad_norm_
    limit = float(torch.nn.utils.get_total_norm(grads).item())

    def smaller() -> float:
        nonlocal limit
        limit *= SHRINK
        return limit

    params = [torch.nn.Parameter(grad) for grad in grads]
    for param, grad in zip(params, grads, strict=True):
        param.grad = grad
    return {
        "mps_ds clip_grad_norm_": lambda: clip_grad_norm_(params, smaller()),
        "torch clip_grad_norm_": lambda: theirs(params, smaller()),
        "torch clip_grad_norm_, for-loop": lambda: theirs(params, smaller(), foreach=False),
    }
