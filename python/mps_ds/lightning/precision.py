"""The Trainer's precision plugins, with unscaling and clipping within the step of FusedAdam.

Lightning's own plugins work with FusedAdam as with every optimizer. With a GradScaler, theirs write
the gradients twice (unscaled, clipped) and wait for the GPU to tell whether to step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch

from . import _onlookers
from ._fabric_precision import check_half
from ._family import Family, derive

Fold = Literal["auto", "always", "never"]
_FOLDS = ("auto", "always", "never")

# What a subclass may override to change how gradients are clipped.
_CLIPPING_METHODS = (
    "_after_closure",
    "_clip_gradients",
    "clip_grad_by_norm",
    "clip_grad_by_value",
    "clip_gradients",
    "main_params",
)

if TYPE_CHECKING:

    class _TrainerPrecision:
        """What is relied on of `Precision` and its subclasses in Lightning's plugins."""

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
        def optimizer_step(
            self, optimizer: Any, model: Any, closure: Callable[[], Any], **kwargs: Any
        ) -> Any: ...
        def clip_gradients(
            self, optimizer: Any, clip_val: float, gradient_clip_algorithm: Any
        ) -> None: ...
        def _after_closure(self, model: Any, optimizer: Any) -> None: ...
else:
    _TrainerPrecision = object


class FoldedStep(_TrainerPrecision):
    """How the Trainer's plugins take a step of FusedAdam.

    The order of hooks is Lightning's. Bounds that Lightning hands to `clip_gradients` on the way
    are remembered, and the step does the rest: gradients are read twice at most and not written.
    Where someone may look at the gradients (`_onlookers`), they are unscaled and clipped in place
    first, as in Lightning; the step still waits for nothing. Other optimizers: Lightning's own way.
    """

    scaler: torch.amp.GradScaler | None = None
    family: ClassVar[Family]
    built: ClassVar[type]  # the class that `build` made: what lies below it is a user's
    _fold: Fold
    _bounds: dict[str, float] | None = None  # not None: remember bounds, instead of clipping
    _told: frozenset[str] = frozenset()

    def optimizer_step(
        self, optimizer: Any, model: Any, closure: Callable[[], Any], **kwargs: Any
    ) -> Any:
        """Run the closure, the hooks and the step. Called by the strategy."""
        way = self._way(optimizer, model)
        if way == "Lightning's":
            return super().optimizer_step(optimizer, model=model, closure=closure, **kwargs)
        result = closure()
        scaler = self.scaler
        if scaler is not None and result is None and model.automatic_optimization:
            # training_step returned None. Lightning takes no step then, if there is a scaler.
            self._after_closure(model, optimizer)
            return result
        if scaler is not None and way == "unscaled first":
            scaler.unscale_(optimizer)
        bounds = self._run_hooks(model, optimizer, remember=way == "folded")
        output = optimizer.step(scaler=scaler, **bounds, **kwargs)
        if scaler is None:
            return result
        scaler.update()
        return output

    def clip_gradients(
        self, optimizer: Any, clip_val: float = 0.0, gradient_clip_algorithm: Any = "norm"
    ) -> None:
        """Clip, or, within a step that will do so, remember the bound."""
        if self._bounds is None:
            super().clip_gradients(optimizer, clip_val, gradient_clip_algorithm)
        elif clip_val > 0:
            by_value = gradient_clip_algorithm == "value"
            self._bounds["clip_value" if by_value else "max_norm"] = float(clip_val)

    def _run_hooks(self, model: Any, optimizer: Any, remember: bool) -> dict[str, float]:
        self._bounds = {} if remember else None
        try:
            self._after_closure(model, optimizer)
            return self._bounds or {}
        finally:
            self._bounds = None

    def _way(
        self, optimizer: Any, model: Any
    ) -> Literal["folded", "unscaled first", "Lightning's"]:
        if self.scaler is None and not model.trainer.gradient_clip_val:
            return "Lightning's"  # there is nothing to fold
        if self._fold == "never":
            return "Lightning's"
        why_not = self._why_not(optimizer)
        if why_not:
            self._tell(f"Lightning's own step is taken: {why_not}")
            return "Lightning's"
        onlookers = self._who_looks(model)
        if onlookers:
            self._tell(f"gradients are unscaled and clipped before the step, for {onlookers}")
            return "Lightning's" if self.scaler is None else "unscaled first"
        return "folded"

    def _why_not(self, optimizer: Any) -> str | None:
        mine = _onlookers.overrides(self, self.built, _CLIPPING_METHODS)
        if mine:
            return f"{type(self).__name__} overrides {mine}"
        return _onlookers.why_not_ours(optimizer, self.scaler)

    def _who_looks(self, model: Any) -> str:
        """For whom gradients are written before the step, in words; empty if for nobody."""
        found = list(_onlookers.onlookers(model, model.trainer.callbacks, self._trusted()))
        if not model.automatic_optimization:
            found.append("manual optimization")
        if self._fold == "always":
            found = [f for f in found if f.rpartition(".")[2] in _onlookers.CLIPPING_HOOKS]
        return ", ".join(found)

    def _trusted(self) -> tuple[str, ...]:
        """Packages whose hooks do not look at gradients, and those that wrap such hooks."""
        return (*self.family.roots(), "mps_ds", "lightning_utilities", "torch")

    def _tell(self, message: str) -> None:
        """Say it once."""
        if message not in self._told:
            self._told |= {message}
            self.family.of_trainer("utilities.rank_zero").rank_zero_info(f"mps_ds: {message}")


class TrainerFull(FoldedStep):
    """`32-true` for the Trainer, with clipping folded into the step of FusedAdam.

    Args:
        fold: "auto": where no overridden hook may look at gradients; "always": all the same, unless
            a hook clips; "never": Lightning's own way.
    """

    def __init__(self, fold: Fold = "auto") -> None:
        super().__init__()
        self._fold = _checked(fold)


class TrainerHalf(FoldedStep):
    """`16-true` or `bf16-true` for the Trainer, with clipping folded into the step of FusedAdam.

    Args:
        precision: "bf16-true" or "16-true".
        fold: as for `Precision`.

    Raises:
        ValueError: precision or fold is none of those.
    """

    def __init__(
        self, precision: Literal["bf16-true", "16-true"] = "bf16-true", fold: Fold = "auto"
    ) -> None:
        check_half(precision)
        super().__init__(precision)
        self._fold = _checked(fold)


class TrainerMixed(FoldedStep):
    """`16-mixed` or `bf16-mixed` for the Trainer, with a step that waits for nothing.

    In place of `Trainer(precision=...)`: `Trainer(plugins=[MixedPrecision("16-mixed")])`. With
    FusedAdam, unscaling, clipping and the decision whether to step happen within the step.

    Args:
        precision: "16-mixed" or "bf16-mixed".
        device: type of the device of autocast and scaler.
        scaler: for "16-mixed", in place of `torch.amp.GradScaler(device)`.
        fold: as for `Precision`.

    Raises:
        ValueError: precision or fold is none of those.
        MisconfigurationException: a scaler for "bf16-mixed".
        RuntimeError: at the first step, the module is on a device of another type.
    """

    device: str

    def __init__(
        self,
        precision: Literal["16-mixed", "bf16-mixed"],
        device: str = "mps",
        scaler: torch.amp.GradScaler | None = None,
        fold: Fold = "auto",
    ) -> None:
        super().__init__(precision, device, scaler)
        self._fold = _checked(fold)

    def optimizer_step(
        self, optimizer: Any, model: Any, closure: Callable[[], Any], **kwargs: Any
    ) -> Any:
        """Run the closure, the hooks and the step. Called by the strategy."""
        if model.device.type != self.device:  # autocast would do nothing, and not say so
            raise RuntimeError(
                f"{type(self).__name__} is for {self.device}, and the module is on {model.device}: "
                f"pass device={model.device.type!r} to the plugin"
            )
        return super().optimizer_step(optimizer, model, closure, **kwargs)


def build(family: Family) -> dict[str, Any]:
    """The Trainer's plugins made of a distribution's own, by their public names."""
    stock = family.of_trainer("plugins.precision")
    mixins = {
        "Precision": TrainerFull,
        "HalfPrecision": TrainerHalf,
        "MixedPrecision": TrainerMixed,
    }
    classes = {}
    for name, mixin in mixins.items():
        plugin = derive(name, mixin, getattr(stock, name))
        plugin.family = family
        plugin.built = plugin
        classes[name] = plugin
    return classes


def _checked(fold: str) -> Any:
    if fold not in _FOLDS:
        raise ValueError(f"fold is {fold!r}; accepted are {', '.join(map(repr, _FOLDS))}")
    return fold
