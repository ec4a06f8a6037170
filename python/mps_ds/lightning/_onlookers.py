"""Who looks at gradients when a step is taken, or after it: they must see what they would see."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch.optim import optimizer as torch_optimizer

from ..optim import FusedAdam

# Hooks that see gradients between their unscaling and the next backward. An `optimizer_zero_grad`
# of one's own may keep gradients beyond the step, an `optimizer_step` look at them after it.
_MODULE_HOOKS = (
    "configure_gradient_clipping",
    "clip_gradients",
    "on_before_optimizer_step",
    "on_before_zero_grad",
    "on_train_batch_end",
    "optimizer_step",
    "optimizer_zero_grad",
)
_CALLBACK_HOOKS = ("on_before_optimizer_step", "on_before_zero_grad", "on_train_batch_end")
# Hooks that clip: what they do to gradients must be done to gradients.
CLIPPING_HOOKS = ("configure_gradient_clipping", "clip_gradients")

_SCALER_METHODS = ("scale", "unscale_", "_unscale_grads_", "step", "update")


def why_not_ours(optimizer: Any, scaler: torch.amp.GradScaler | None) -> str | None:
    """Why an optimizer cannot take scaler and bounds into its step, in words; None if it can."""
    if not isinstance(optimizer, FusedAdam):
        return f"the optimizer is {type(optimizer).__name__}, not mps_ds.optim.FusedAdam"
    if inspect.unwrap(type(optimizer).step) is not inspect.unwrap(FusedAdam.step):
        return f"{type(optimizer).__name__} overrides FusedAdam.step"
    if _has_step_hooks(optimizer):
        return "the optimizer has step hooks, which are not called where a step is skipped"
    if scaler is not None:
        own = overrides(scaler, torch.amp.GradScaler, _SCALER_METHODS)
        return f"{type(scaler).__name__} overrides {own}" if own else None
    return None


def onlookers(model: Any, callbacks: list[Any], trusted: tuple[str, ...]) -> Iterator[str]:
    """Names of hooks, overridden outside the trusted packages, that may look at gradients."""
    for hook in _MODULE_HOOKS:
        if not _is_defined_in(getattr(model, hook), trusted):
            yield f"{type(model).__name__}.{hook}"
    for callback in callbacks:
        for hook in _CALLBACK_HOOKS:
            if not _is_defined_in(getattr(callback, hook), trusted):
                yield f"{type(callback).__name__}.{hook}"


def overrides(instance: object, base: type, names: tuple[str, ...]) -> str | None:
    """The first of the names that a subclass of `base` defines anew for this instance."""
    for name in names:
        if name in vars(instance) or getattr(type(instance), name) is not getattr(base, name):
            return name
    return None


def _has_step_hooks(optimizer: torch.optim.Optimizer) -> bool:
    return bool(
        optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or torch_optimizer._global_optimizer_pre_hooks
        or torch_optimizer._global_optimizer_post_hooks
    )


def _is_defined_in(function: Any, packages: tuple[str, ...]) -> bool:
    """Whether a hook's code lies in the packages; where that cannot be told, it does not.

    By its globals, because functools.wraps copies `__module__`; with all that it wraps.
    """
    while function is not None:
        module = getattr(function, "__globals__", {}).get("__name__", "")
        if not any(module == name or module.startswith(name + ".") for name in packages):
            return False
        function = getattr(function, "__wrapped__", None)
    return True
