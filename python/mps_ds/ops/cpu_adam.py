"""Adam and AdamW on the CPU, for optimizer states that are kept in host memory.

:func:`cpu_adam_` steps lists of tensors in one call. `create_adam`, `adam_update`, `adam_rollback`
and `destroy_adam` are the functions that DeepSpeed expects of its CPU Adam module.
docs/cpu_adam.md says how it is made and how fast it is.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .. import _native
from ._on_host import OnHost

__all__ = [
    "adam_rollback",
    "adam_update",
    "backends",
    "cpu_adam_",
    "create_adam",
    "destroy_adam",
]

_logger = logging.getLogger(__name__)

_native.writes_in_place("cpu_adam_", "cpu_adam_rollback_")


@torch.no_grad()
def cpu_adam_(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    steps: int | Sequence[int],
    *,
    lr: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    adam_w_mode: bool = True,
    bias_correction: bool = True,
    maximize: bool = False,
    grad_scale: float = 1.0,
    max_exp_avg_sqs: Sequence[Tensor] = (),
    copies: Sequence[Tensor] = (),
) -> None:
    """One Adam or AdamW step of any number of tensors, in place and in one call.

    The formula is that of :func:`mps_ds.ops.adam_`, computed in plain float32 (docs/numerics.md)
    and rounded once, to nearest even, for each tensor that is written.

    Tensors are in host memory, or on `mps`: then the call waits for the GPU once and works in place
    on the memory that both share. What is in Private storage is copied, and copied back.

    Args:
        params: float32, float16 or bfloat16 tensors of any shape and strides. Written.
        grads: one for each param, of its shape; any of these dtypes, any strides.
        exp_avgs: running means of the gradients, of the params' shapes; float32 or of the param's
            dtype. Written.
        exp_avg_sqs: running means of their squares; of the same dtypes as `exp_avgs`. Written.
        steps: the step count, from 1 and including this step; one for all, or one for each.
        lr: learning rate, at least 0.
        beta1: in [0, 1).
        beta2: in [0, 1).
        eps: 0, or at least 2^-126 (1.2e-38).
        weight_decay: times the learning rate and the param (AdamW), or an L2 penalty.
        adam_w_mode: AdamW's decoupled weight decay; False: Adam's L2 penalty.
        bias_correction: False leaves the means uncorrected.
        maximize: ascend instead.
        grad_scale: what the gradients are divided by; finite and positive.
        max_exp_avg_sqs: for amsgrad, one for each param, as `exp_avg_sqs`. Written.
        copies: float16 or bfloat16 tensors of the shapes of params that are float32: they get the
            new params. Written.

    Raises:
        RuntimeError: before anything is written, for lists of different lengths, other dtypes,
            devices or shapes, sparse tensors, tensors that share memory with one that is written, a
            number outside its range. Names the argument and its position.
    """
    option = options(lr, (beta1, beta2), eps, weight_decay, adam_w_mode, bias_correction, maximize)
    step_lists(
        [list(params), list(grads), list(exp_avgs), list(exp_avg_sqs)],
        list(max_exp_avg_sqs),
        list(copies),
        groups=[],
        steps=[steps] if isinstance(steps, int) else list(steps),
        group_options=option,
        grad_scale=grad_scale,
    )


def options(
    lr: float,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
    adam_w_mode: bool,
    bias_correction: bool,
    maximize: bool,
) -> list[float]:
    """The numbers of one param group, in the order in which the native code takes them."""
    flags = [float(adam_w_mode), float(bias_correction), float(maximize)]
    return [float(lr), *map(float, betas), float(eps), float(weight_decay), *flags, math.inf]


def step_lists(
    lists: list[list[Tensor]],
    max_exp_avg_sqs: list[Tensor],
    copies: list[Tensor],
    *,
    groups: list[int],
    steps: list[int],
    group_options: list[float],
    grad_scale: float = 1.0,
) -> None:
    """One step over params of several groups.

    Args:
        lists: params, grads, exp_avgs and exp_avg_sqs as in :func:`cpu_adam_`.
        max_exp_avg_sqs: as in :func:`cpu_adam_`.
        copies: as in :func:`cpu_adam_`.
        groups: the number of each param's group; empty: there is one.
        steps: the step count of each param, this step included; one may stand for all.
        group_options: :func:`options` of each group, one after the other.
        grad_scale: what the gradients are divided by.
    """
    with OnHost([*lists, max_exp_avg_sqs, copies]) as host:
        torch.ops.mps_ds.cpu_adam_(*host.lists, groups, steps, group_options, grad_scale)


def rollback_lists(lists: list[list[Tensor]], *, step: int, group_options: list[float]) -> None:
    """Undo a step of one param: `lists` of one entry each, the rest as in :func:`step_lists`."""
    with OnHost(lists) as host:
        tensors = [tensors[0] for tensors in host.lists]
        torch.ops.mps_ds.cpu_adam_rollback_(*tensors, step, group_options)


def backends() -> list[str]:
    """What this processor can run of "avx512", "avx2", "neon" and "scalar"; the one in use first.

    The environment variable MPS_DS_CPU_ADAM, read at the first step, chooses another.
    """
    names: str = torch.ops.mps_ds._cpu_adam_backends()
    return names.split()


_adamw_mode: dict[int, bool] = {}


def create_adam(
    optimizer_id: int,
    lr: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    adamw_mode: bool = True,
    should_log: bool = False,
) -> int:
    """Make an optimizer known under a number; an earlier one of that number is replaced.

    Only `adamw_mode` is kept: all else comes with every step, and so does the step count, which
    belongs to the param.

    Returns:
        0.
    """
    _adamw_mode[optimizer_id] = bool(adamw_mode)
    if should_log:
        _logger.info(
            "CPU Adam %d: %s, lr %g, betas (%g, %g), eps %g, weight decay %g, %s",
            optimizer_id, backends()[0], lr, beta1, beta2, eps, weight_decay,
            "AdamW" if adamw_mode else "Adam",
        )  # fmt: skip
    return 0


def adam_update(
    optimizer_id: int,
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    bias_correction: bool,
    params: Tensor,
    grads: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
) -> int:
    """One step of one tensor, in place.

    Args:
        optimizer_id: a number given to :func:`create_adam`.
        step: the step count of this tensor, from 1 and including this step.
        lr: as in :func:`cpu_adam_`, like all that follow.
        beta1: decay rate of the first mean.
        beta2: decay rate of the second mean.
        eps: added to the root of the second mean.
        weight_decay: decoupled, or an L2 penalty, as `create_adam` was told.
        bias_correction: False leaves the means uncorrected.
        params: the param. Written.
        grads: its gradient.
        exp_avg: its first mean. Written.
        exp_avg_sq: its second mean. Written.

    Returns:
        0.

    Raises:
        RuntimeError: as :func:`cpu_adam_`, and for an unknown `optimizer_id`.
    """
    with torch.no_grad():
        step_lists(
            [[params], [grads], [exp_avg], [exp_avg_sq]],
            [],
            [],
            groups=[],
            steps=[int(step)],
            group_options=options(
                lr, (beta1, beta2), eps, weight_decay, _mode(optimizer_id), bias_correction, False
            ),
        )
    return 0


def adam_rollback(
    optimizer_id: int,
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    bias_correction: bool,
    params: Tensor,
    grads: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
) -> int:
    """Undo step number `step` of one tensor, up to rounding; the arguments are that step's.

    `grads` must hold what they held then. Computed in double.

    Returns:
        0.

    Raises:
        RuntimeError: as :func:`adam_update`; and where a step cannot be undone: a beta is 0, `lr *
            weight_decay` is 1, or the tensors are not laid out alike.
    """
    with torch.no_grad():
        rollback_lists(
            [[params], [grads], [exp_avg], [exp_avg_sq]],
            step=int(step),
            group_options=options(
                lr, (beta1, beta2), eps, weight_decay, _mode(optimizer_id), bias_correction, False
            ),
        )
    return 0


def destroy_adam(optimizer_id: int) -> int:
    """Forget an optimizer; an unknown number is no error. Returns 0."""
    _adamw_mode.pop(optimizer_id, None)
    return 0


def _mode(optimizer_id: int) -> bool:
    if optimizer_id not in _adamw_mode:
        raise RuntimeError(f"mps_ds: there is no CPU Adam {optimizer_id}; create_adam makes one")
    return _adamw_mode[optimizer_id]
