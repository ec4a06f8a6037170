"""Fakes of the operators: what they return without computing it, for torch.compile and `meta`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor


def register(op: torch._ops.OpOverload, fake: Callable[..., Any]) -> None:
    """Register `fake`, which is called only where all tensors are fake, or all on `meta`.

    PyTorch asks a fake as soon as one tensor is on `meta`: beside real ones, which then stayed as
    they are, that would be a silent no-op.
    """

    def checked(*args: Any, **kwargs: Any) -> Any:
        named = list(_tensors(op, args, kwargs))
        on_meta = [name for name, tensor in named if tensor.device.type == "meta"]
        if on_meta and len(on_meta) < len(named):
            raise RuntimeError(
                f"mps_ds: {on_meta[0]} is on meta, other tensors of this call are not; "
                "all must be on one device"
            )
        return fake(*args, **kwargs)

    torch.library.register_fake(op, checked)


def writes_only(op: torch._ops.OpOverload) -> None:
    """Register the fake of an op that returns nothing: there is nothing to say about shapes."""

    def nothing(*args: Any) -> None:
        pass

    register(op, nothing)


def _tensors(
    op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[tuple[str, Tensor]]:
    """Each tensor among the arguments, with its name."""
    names = [argument.name for argument in op._schema.arguments]
    for name, value in [*zip(names, args, strict=False), *kwargs.items()]:
        if isinstance(value, Tensor):
            yield name, value
        elif isinstance(value, (list, tuple)):
            for index, item in enumerate(value):
                if isinstance(item, Tensor):
                    yield f"{name}[{index}]", item
