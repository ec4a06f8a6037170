"""Fabric's precision plugins, with unscaling and clipping within the step of FusedAdam."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch

from . import _onlookers
from ._family import Family, derive

if TYPE_CHECKING:

    class _FabricPrecision:
        """What is relied on of `Precision` and its subclasses in Fabric's plugins."""

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
        def optimizer_step(self, optimizer: Any, **kwargs: Any) -> Any: ...

else:
    _FabricPrecision = object


class FabricStep(_FabricPrecision):
    """How Fabric's plugins take a step of FusedAdam.

    Fabric's own `clip_gradients` clips in place and returns the norm, and by default waits for it,
    to raise where it is not finite. A plugin has no say in that, so bounds for the step to clip
    with are the plugin's arguments.
    """

    scaler: torch.amp.GradScaler | None = None
    _bounds: dict[str, float]

    def _clip_with(self, max_norm: float | None, clip_value: float | None) -> None:
        given = {"max_norm": max_norm, "clip_value": clip_value}
        self._bounds = {name: float(b) for name, b in given.items() if b is not None}
        for name, bound in self._bounds.items():
            if not bound >= 0:
                raise ValueError(f"{name} is {bound}; it must be >= 0")

    def optimizer_step(self, optimizer: Any, **kwargs: Any) -> Any:
        """Take the step. Called by `optimizer.step()`.

        Raises:
            TypeError: there are bounds, and the optimizer is not a FusedAdam that can take them.
        """
        why = _onlookers.why_not_ours(optimizer, self.scaler)
        if why and self._bounds:
            raise TypeError(
                f"{' and '.join(self._bounds)}: gradients are clipped within a step, but {why}"
            )
        closure_refused = (
            self.scaler is not None and "closure" in kwargs
        )  # as GradScaler refuses it
        if why or closure_refused:
            return super().optimizer_step(optimizer, **kwargs)
        output = optimizer.step(scaler=self.scaler, **self._bounds, **kwargs)
        if self.scaler is not None:
            self.scaler.update()
        return output


class FabricFull(FabricStep):
    """`32-true` for Fabric, with clipping within the step of FusedAdam.

    Gradients are not written. `optimizer.grad_norm` is their norm after a step with `max_norm`.

    Args:
        max_norm: clip the norm of all gradients together to this, in each `optimizer.step()`.
        clip_value: clip each gradient's elements to this magnitude.

    Raises:
        ValueError: a bound is negative.
    """

    def __init__(self, max_norm: float | None = None, clip_value: float | None = None) -> None:
        super().__init__()
        self._clip_with(max_norm, clip_value)


class FabricHalf(FabricStep):
    """`16-true` or `bf16-true` for Fabric, with clipping within the step of FusedAdam.

    Args:
        precision: "bf16-true" or "16-true".
        max_norm: as for `FabricPrecision`.
        clip_value: as for `FabricPrecision`.

    Raises:
        ValueError: precision is neither, or a bound is negative.
    """

    def __init__(
        self,
        precision: Literal["bf16-true", "16-true"] = "bf16-true",
        max_norm: float | None = None,
        clip_value: float | None = None,
    ) -> None:
        check_half(precision)
        super().__init__(precision)
        self._clip_with(max_norm, clip_value)


class FabricMixed(FabricStep):
    """`16-mixed` or `bf16-mixed` for Fabric, with a step that waits for nothing.

    In place of `Fabric(precision=...)`: `Fabric(plugins=[FabricMixedPrecision("16-mixed")])`. With
    FusedAdam, overflows are found, gradients unscaled and steps skipped within the step, and the
    gradients are not written; unless `fabric.clip_gradients` came before: it unscales and clips
    them in place, as ever.

    Args:
        precision: "16-mixed" or "bf16-mixed".
        device: type of the device of autocast and scaler.
        scaler: for "16-mixed", in place of `torch.amp.GradScaler(device)`.
        max_norm: as for `FabricPrecision`.
        clip_value: as for `FabricPrecision`.

    Raises:
        ValueError: precision is neither, a bound is negative, or a scaler for "bf16-mixed".
    """

    def __init__(
        self,
        precision: Literal["16-mixed", "bf16-mixed"],
        device: str = "mps",
        scaler: torch.amp.GradScaler | None = None,
        max_norm: float | None = None,
        clip_value: float | None = None,
    ) -> None:
        super().__init__(precision, device, scaler)
        self._clip_with(max_norm, clip_value)


def check_half(precision: str) -> None:
    """Refuse what Lightning's HalfPrecision takes for "16-true"."""
    if precision not in ("bf16-true", "16-true"):
        raise ValueError(f"precision is {precision!r}; accepted are 'bf16-true', '16-true'")


def build(family: Family) -> dict[str, Any]:
    """Fabric's plugins made of a distribution's own, by their public names."""
    stock = family.of_fabric("plugins.precision")
    mixins = {"Precision": FabricFull, "HalfPrecision": FabricHalf, "MixedPrecision": FabricMixed}
    return {
        f"Fabric{name}": derive(f"Fabric{name}", mixin, getattr(stock, name))
        for name, mixin in mixins.items()
    }
