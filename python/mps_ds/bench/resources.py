"""What it costs to declare a buffer to Metal: a step over tensors in one buffer or in many."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from .cases import LR, Case, Contestant, Work
from .shapes import Shapes

GROUP = "resources"
LISTS = 4
"""params, grads, exp_avgs, exp_avg_sqs: a list of each is passed."""
ELEMENTS = 1024
ONE, MANY = "one buffer a list", "a buffer for each tensor"


def cases(counts: tuple[int, ...] = (150, 2000)) -> list[Case]:
    """The same tables, kernels and bytes; only the number of useResource: calls differs."""
    found = []
    for count in counts:
        shapes = Shapes(str(count), "tensors", [(ELEMENTS,)] * count)
        needs = 2 * LISTS * 4 * shapes.elements
        found.append(
            Case(
                GROUP,
                str(count),
                "Adam, resources declared",
                shapes,
                needs,
                partial(make, shapes),
            )
        )
    return found


def extra_buffers(case: Case) -> int:
    """How many buffers more the second contestant has."""
    return LISTS * (len(case.shapes.shapes) - 1)


def make(shapes: Shapes, device: str) -> dict[str, Contestant]:
    """Two lists of the same sizes."""
    from mps_ds.ops import adam_

    count, least = len(shapes.shapes), 28 * shapes.elements
    flat = [torch.rand(count * ELEMENTS, device=device) for _ in range(LISTS)]
    views = [list(torch.split(buffer, ELEMENTS)) for buffer in flat]
    apart = [[torch.rand(ELEMENTS, device=device) for _ in range(count)] for _ in range(LISTS)]

    def step(lists: list[list[Tensor]]) -> Work:
        return lambda: adam_(lists[0], lists[1], lists[2], lists[3], 2, lr=LR)

    return {
        ONE: Contestant(step(views), least, ours=True),
        MANY: Contestant(step(apart), least, ours=True),
    }
