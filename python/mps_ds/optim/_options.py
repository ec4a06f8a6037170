"""Options, states and parameters of an Adam optimizer: what is accepted, and how it is passed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

FLOATING = (torch.float32, torch.float16, torch.bfloat16)

# A smaller eps is subnormal: flushed by a GPU, and its inverse is not finite.
_SMALLEST_EPS = 2.0**-126


def is_on_device(lr: float | Tensor) -> bool:
    """Whether a learning rate is a tensor that only the device can read without waiting."""
    return isinstance(lr, Tensor) and lr.device.type != "cpu"


def step_options(group: dict[str, Any], clip_value: float = math.inf) -> tuple[float, ...]:
    """A param group's numbers, in the order of AdamPlan.step's `options`."""
    beta1, beta2 = group["betas"]
    return (
        0.0 if is_on_device(group["lr"]) else float(group["lr"]),
        float(beta1),
        float(beta2),
        float(group["eps"]),
        float(group["weight_decay"]),
        float(group["adam_w_mode"]),
        float(group["bias_correction"]),
        float(group["maximize"]),
        clip_value,
    )


def check_lr_devices(groups: Sequence[dict[str, Any]], device: torch.device) -> None:
    """Raise RuntimeError for a learning rate on a device that is not the parameters'."""
    for number, group in enumerate(groups):
        lr = group["lr"]
        if is_on_device(lr) and lr.device.type != device.type:
            raise RuntimeError(
                f"lr of param group {number} is on {lr.device}, the parameters on {device}; "
                "accepted are a number, a tensor on the CPU, and one on the parameters' device"
            )


def device_lrs(groups: Sequence[dict[str, Any]], device: torch.device) -> list[Tensor]:
    """Learning rates as tensors on `device`, one for each group, where any is one; else none."""
    lrs = [group["lr"] for group in groups]
    if not any(map(is_on_device, lrs)):
        return []
    return [
        lr.to(torch.float32)
        if is_on_device(lr)
        else torch.full((), float(lr), dtype=torch.float32, device=device)
        for lr in lrs
    ]


def check_options(group: dict[str, Any]) -> None:
    """Raise ValueError for options that no step can honour."""
    _check_lr(group["lr"])
    check_betas_and_eps(group)
    if not 0.0 <= group["weight_decay"] < math.inf:
        raise ValueError(
            f"Invalid weight_decay value: {group['weight_decay']}; it must be finite and >= 0"
        )
    if group.get("differentiable"):
        raise ValueError("FusedAdam does not support differentiable=True")


def check_betas_and_eps(group: dict[str, Any]) -> None:
    """Raise ValueError for betas and an eps that no step can honour."""
    betas = group["betas"]
    if len(betas) != 2:
        raise ValueError(f"Invalid betas: {betas}; there must be two")
    for index, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {index}: {beta}; must be in [0, 1)")
    if group["eps"] != 0.0 and not _SMALLEST_EPS <= group["eps"] < math.inf:
        raise ValueError(
            f"Invalid epsilon value: {group['eps']}; it must be 0, or finite and at least 1.2e-38"
        )


def _check_lr(lr: float | Tensor) -> None:
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError(
            f"lr is a tensor of {lr.numel()} elements on {lr.device}; it must have one"
        )
    if is_on_device(lr):
        return  # reading it would stall every step
    if not 0.0 <= float(lr) < math.inf:
        raise ValueError(f"Invalid learning rate: {lr}; it must be finite and >= 0")


def check_state_dtype(dtype: torch.dtype | None) -> None:
    """Raise ValueError for dtypes that states cannot have."""
    if dtype is not None and dtype not in FLOATING:
        raise ValueError(
            f"state_dtype is {dtype}; accepted are None (float32), torch.float32, and the dtype of "
            "the parameters"
        )


def check_seed(seed: int | None) -> None:
    """Raise ValueError for a seed that the operator cannot take."""
    if seed is not None and not 0 <= seed < 2**63:
        raise ValueError(f"stochastic_rounding is {seed}; a seed must be >= 0 and below 2^63")


def check_clip_value(clip_value: float | None) -> None:
    """Raise ValueError for a bound that no magnitude can have."""
    if clip_value is not None and not clip_value >= 0.0:
        raise ValueError(f"clip_value is {clip_value}; it must be >= 0")


def adopt_means(
    state: dict[str, Any], param: Tensor, group: dict[str, Any], name: str, means: Sequence[str]
) -> None:
    """Check the loaded `means`, and make the step count an int."""
    for key in means:
        if key not in state:
            raise ValueError(f"the {name} has no {key!r}; it has {sorted(state)}")
        if state[key].shape != param.shape:
            raise ValueError(
                f"{key!r} in the {name} has shape {tuple(state[key].shape)}, "
                f"the parameter has {tuple(param.shape)}"
            )
    # Without one: DeepSpeed and apex have kept it in the group.
    step = float(state.get("step", group.get("step", 0)))
    if not step.is_integer() or step < 0:
        raise ValueError(f"'step' in the {name} is {step}; it must be a whole number >= 0")
    state["step"] = int(step)


def adopt_state(state: dict[str, Any], param: Tensor, group: dict[str, Any], name: str) -> None:
    """Check a loaded state, and make its step count an int."""
    means = ["exp_avg", "exp_avg_sq"]
    if state.get("max_exp_avg_sq") is not None:
        means.append("max_exp_avg_sq")
    else:
        state.pop("max_exp_avg_sq", None)
    adopt_means(state, param, group, name, means)


def check_params(params: Sequence[Tensor]) -> None:
    """Raise RuntimeError where parameters or gradients are none that a step could take."""
    for index, param in enumerate(params):
        if param.device != params[0].device:
            raise RuntimeError(
                f"params[{index}] is on {param.device}, params[0] on {params[0].device}; "
                "a FusedAdam's parameters must be on one device"
            )
        if param.device.type not in ("mps", "cpu"):
            raise RuntimeError(f"params[{index}] is on {param.device}; accepted are mps and cpu")
        if param.dtype not in FLOATING:
            raise RuntimeError(
                f"params[{index}] is {param.dtype}; accepted are torch.float32, torch.float16 and "
                "torch.bfloat16"
            )
        if param.is_sparse or (param.grad is not None and param.grad.is_sparse):
            raise RuntimeError(f"params[{index}] or its grad is sparse; accepted are dense ones")
        if is_traceable_wrapper_subclass(param) or param.is_neg():
            kind = type(param).__name__ if not param.is_neg() else "lazily negated view"
            raise RuntimeError(f"params[{index}] is a {kind}; accepted are plain tensors")
