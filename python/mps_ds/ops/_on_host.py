"""Tensors of an Adam step where the CPU can reach them."""

from __future__ import annotations

from itertools import chain
from operator import attrgetter

import torch
from torch import Tensor

from ..unified import cpu_views, is_shared

_is_cpu = attrgetter("is_cpu")
_LISTS = ("params", "grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs", "copies")


class OnHost:
    """Lists of tensors as the CPU can reach them; all are written but the second, the gradients."""

    def __init__(self, lists: list[list[Tensor]]) -> None:
        self.lists = lists
        self._back: list[tuple[Tensor, Tensor]] = []

    def __enter__(self) -> OnHost:
        if all(map(_is_cpu, chain.from_iterable(self.lists))):
            return self
        devices = {t.device.type for tensors in self.lists for t in tensors}
        if not devices <= {"cpu", "mps"} and len(devices) > 1:
            self._refuse_mixture()
        if "mps" not in devices:
            return self
        self.lists = [list(tensors) for tensors in self.lists]
        places = [
            (tensors, i, k != 1)
            for k, tensors in enumerate(self.lists)
            for i, tensor in enumerate(tensors)
            if tensor.device.type == "mps"
        ]
        shared = [place for place in places if is_shared(place[0][place[1]])]
        views = cpu_views([tensors[i] for tensors, i, _ in shared], writes=False)
        for (tensors, i, written), view in zip(shared, views, strict=True):
            if written and not tensors[i].is_inference():
                torch.autograd.graph.increment_version(tensors[i])
            tensors[i] = view
        for tensors, i, written in places:
            if tensors[i].device.type == "mps":  # Private storage
                copy = tensors[i].cpu()
                if written:
                    self._back.append((tensors[i], copy))
                tensors[i] = copy
        return self

    def _refuse_mixture(self) -> None:
        """A tensor on meta would make a silent no-op of the call."""
        for name, tensors in zip(_LISTS, self.lists, strict=False):
            for index, tensor in enumerate(tensors):
                if tensor.device.type not in ("cpu", "mps"):
                    raise RuntimeError(
                        f"mps_ds: {name}[{index}] is on {tensor.device.type}; accepted are tensors "
                        "on cpu and mps"
                    )

    def __exit__(self, error: object, *_: object) -> None:
        if error is None:
            for tensor, copy in self._back:
                tensor.copy_(copy)
