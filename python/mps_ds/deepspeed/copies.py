"""Copies between host and mps that DeepSpeed starts and does not wait for.

PyTorch's MPS backend lets the GPU read or write the host's memory itself when a copy is
`non_blocking`, and nothing orders that with what the host does next, nor with another copy of the
same host memory. ZeRO's offload does both: it copies a gradient to the host and from there at once
to the device again. On CUDA, pinned memory and streams make that right; here it reads what is
there by chance (pytorch#189690).

So while DeepSpeed is enabled, `Tensor.copy_` and `Tensor.to` wait where they leave the device or
come to it. Copies within the device are left alone. Afterwards torch's own are back, unless
somebody has put theirs over these: then theirs stay, and what they call waits as before.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import wraps
from typing import Any

import torch

from ._replace import replace


def make_blocking(undo: ExitStack) -> None:
    """Let copies between host and mps wait, in this process."""
    own_copy, own_to = torch.Tensor.copy_, torch.Tensor.to

    @wraps(own_copy)
    def copy_(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        source = args[0] if args else kwargs.get("other")
        if isinstance(source, torch.Tensor) and source.device != self.device:
            args, kwargs = _blocking(args, kwargs)
        result: torch.Tensor = own_copy(self, *args, **kwargs)
        return result

    @wraps(own_to)
    def to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        args, kwargs = _blocking(args, kwargs)  # within a device it makes no difference
        result: torch.Tensor = own_to(self, *args, **kwargs)
        return result

    for name, ours in (("copy_", copy_), ("to", to)):
        ours.__module__, ours.__qualname__ = "torch", f"Tensor.{name}"  # for pickle
        replace(undo, torch.Tensor, name, ours)


def _blocking(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of copy_ or to, with a True for non_blocking made False.

    By position it is the first bool (copy comes after it). What else is there is PyTorch's to
    judge, so that each call that it refuses is refused.
    """
    if kwargs.get("non_blocking") is True:
        return args, {**kwargs, "non_blocking": False}
    for position, argument in enumerate(args):
        if isinstance(argument, bool):
            return (*args[:position], False, *args[position + 1 :]), kwargs
    return args, kwargs
