"""Adam and AdamW over lists of tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index
from typing import SupportsIndex

import torch
from torch import Tensor

from .. import _native

_Scalar = float | Tensor

_native.writes_in_place("adam_")


@torch.no_grad()
def adam_(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    steps: int | Sequence[int] | Sequence[Tensor],
    *,
    lr: float | Tensor,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    adam_w_mode: bool = True,
    bias_correction: bool = True,
    maximize: bool = False,
    max_exp_avg_sqs: Sequence[Tensor] = (),
    copies: Sequence[Tensor] = (),
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    clip_coef: Tensor | None = None,
    clip_value: float | Tensor | None = None,
    stochastic_rounding: int | None = None,
) -> None:
    r"""One Adam or AdamW step of any number of tensors, in place.

    One dispatch for each combination of dtypes. For each element, in fp32:

    .. math::
        g &\leftarrow g\, c / s \text{, negated to maximize, then bounded to } [-b, b] \\
        p &\leftarrow (1 - \eta\lambda)\, p \quad\text{(AdamW)}, \qquad
        g \leftarrow g + \lambda p \quad\text{(Adam)} \\
        m &\leftarrow \beta_1 m + (1 - \beta_1) g, \qquad
        v \leftarrow \beta_2 v + (1 - \beta_2) g^2 \\
        p &\leftarrow p - \frac{\eta}{1 - \beta_1^t}\,
             \frac{m}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}

    (Kingma and Ba, 2015, algorithm 1; Loshchilov and Hutter, 2019, algorithm 2. With amsgrad, the
    largest :math:`v` so far stands in the last line: Reddi, Kale and Kumar, 2018.) Each value is
    rounded once, to the dtype that it is stored in.

    Scalars that are tensors have one element, float32, on the params' device, where they are read
    without waiting for them; or on the CPU.

    Args:
        params: float32, float16 or bfloat16 tensors of any shape and strides, all on one device.
            Written.
        grads: one for each param, of its shape; strides and dtype may differ.
        exp_avgs: running means of the gradients (:math:`m`): shapes as `params`, float32 or of the
            param's dtype. Written.
        exp_avg_sqs: running means of their squares (:math:`v`), as `exp_avgs`. Written.
        steps: :math:`t`, counted from 1 and including this step; one for all, or one for each. Or
            the counts before this step, as float32 tensors of one element on the params' device,
            which are then written.
        lr: :math:`\eta`, at least 0.
        beta1: in [0, 1).
        beta2: in [0, 1).
        eps: 0, or at least 2^-126 (1.2e-38).
        weight_decay: :math:`\lambda`.
        adam_w_mode: AdamW's decoupled weight decay; False: Adam's L2 penalty.
        bias_correction: False takes :math:`1 - \beta^t` for 1.
        maximize: ascend instead.
        max_exp_avg_sqs: amsgrad: the largest `exp_avg_sqs` so far, as these. Written.
        copies: float16 or bfloat16 tensors that take the new params, which are then float32;
            shapes as `params`. Written.
        grad_scale: :math:`s`, what the gradients are divided by. They are not written.
        found_inf: where it is not 0 (float32 or int32), nothing is written at all.
        clip_coef: :math:`c`, what the gradients are multiplied with.
        clip_value: :math:`b`, the bound of a gradient's magnitude.
        stochastic_rounding: a seed, at least 0 and below 2^63: bfloat16 params (others: to the
            nearest) are rounded up or down at random, with the probability that nearness gives.
            The same seed, step count, position in `params` and element give the same bits on every
            device. (Philox: Salmon et al., 2011.)

    Raises:
        RuntimeError: before anything is written, for lists of different lengths, other dtypes,
            devices or shapes, sparse tensors, tensors that share memory with one that is written, a
            number outside its range. Names the argument and its position.
    """
    bound, bound_tensor = _split(clip_value, math.inf)
    rate, rate_tensor = _split(lr, 0.0)
    counts, step_tensors = _split_steps(steps)
    torch.ops.mps_ds.adam_(
        list(params),
        list(grads),
        list(exp_avgs),
        list(exp_avg_sqs),
        list(max_exp_avg_sqs),
        [],
        list(copies),
        step_tensors,
        [],
        counts,
        [
            rate,
            beta1,
            beta2,
            eps,
            weight_decay,
            float(adam_w_mode),
            float(bias_correction),
            float(maximize),
            bound,
        ],
        [] if rate_tensor is None else [rate_tensor],
        grad_scale,
        found_inf,
        clip_coef,
        bound_tensor,
        stochastic_rounding,
    )


def _split(value: _Scalar | None, absent: float) -> tuple[float, Tensor | None]:
    """A scalar as the number and the tensor that the operator takes."""
    if isinstance(value, Tensor):
        return absent, value
    return absent if value is None else float(value), None


def _split_steps(
    steps: SupportsIndex | Sequence[int] | Sequence[Tensor],
) -> tuple[list[int], list[Tensor]]:
    if isinstance(steps, SupportsIndex) and not isinstance(steps, Sequence):
        return [index(steps)], []
    tensors = [step for step in steps if isinstance(step, Tensor)]
    if not tensors:
        return [int(step) for step in steps], []
    if len(tensors) != len(steps):
        raise RuntimeError("steps has numbers and tensors; accepted are the one or the other")
    return [], tensors


def multi_tensor_adam(
    chunk_size: int,
    noop_flag: Tensor | None,
    tensor_lists: Sequence[Sequence[Tensor]],
    lr: float | Tensor,
    beta1: float,
    beta2: float,
    eps: float,
    step: int,
    adam_w_mode: int | bool,
    bias_correction: int | bool,
    weight_decay: float,
) -> None:
    """One Adam or AdamW step in the call shape of apex and of DeepSpeed. See :func:`adam_`.

    Args:
        chunk_size: accepted for compatibility; without effect.
        noop_flag: int32 or float32 of one element: where it is not 0, nothing is written. On the
            params' device it is read there, without waiting; on the CPU, at the call.
        tensor_lists: [grads, params, exp_avgs, exp_avg_sqs].
        lr: learning rate.
        beta1: in [0, 1).
        beta2: in [0, 1).
        eps: 0, or at least 2^-126 (1.2e-38).
        step: counted from 1 and including this step.
        adam_w_mode: 1: decoupled weight decay; 0: L2 penalty.
        bias_correction: 1, or 0 for none.
        weight_decay: either kind's factor.

    Raises:
        RuntimeError: as :func:`adam_`.
    """
    if len(tensor_lists) != 4:
        raise RuntimeError(
            f"tensor_lists has {len(tensor_lists)} lists; accepted are four: "
            "grads, params, exp_avgs, exp_avg_sqs"
        )
    grads, params, exp_avgs, exp_avg_sqs = tensor_lists
    adam_(
        params,
        grads,
        exp_avgs,
        exp_avg_sqs,
        step,
        lr=lr,
        beta1=beta1,
        beta2=beta2,
        eps=eps,
        weight_decay=weight_decay,
        adam_w_mode=bool(adam_w_mode),
        bias_correction=bool(bias_correction),
        found_inf=noop_flag,
    )


class AdamPlan:
    """Params and their states registered once, so that a step passes gradients only.

    Made for optimizers: the lists as in :func:`adam_`, on `mps`; `groups[i]` is the number of the
    param group of `params[i]`; `max_exp_avg_sqs` belong to the params `amsgrad_rows`, ascending (to
    all, if empty). The plan holds its tensors.
    """

    def __init__(
        self,
        params: Sequence[Tensor],
        exp_avgs: Sequence[Tensor],
        exp_avg_sqs: Sequence[Tensor],
        groups: Sequence[int],
        *,
        max_exp_avg_sqs: Sequence[Tensor] = (),
        amsgrad_rows: Sequence[int] = (),
        copies: Sequence[Tensor] = (),
        step_tensors: Sequence[Tensor] = (),
    ) -> None:
        ops = torch.ops.mps_ds
        self._handle: int | None = None
        self._free = ops._adam_plan_free.default
        self._step = ops._adam_plan_step.default
        self._handle = ops._adam_plan(
            list(params),
            list(exp_avgs),
            list(exp_avg_sqs),
            list(max_exp_avg_sqs),
            list(amsgrad_rows),
            list(copies),
            list(step_tensors),
            list(groups),
        )

    def step(
        self,
        grads: list[Tensor],
        rows: list[int],
        steps: list[int],
        options: list[float],
        *,
        lr_tensors: list[Tensor] | None = None,
        grad_scale: Tensor | None = None,
        found_inf: Tensor | None = None,
        clip_coef: Tensor | None = None,
        seed: int | None = None,
        steps_changed: bool = False,
    ) -> bool:
        """One step; nothing is written where it raises.

        Args:
            grads: tensors of their param's shape.
            rows: the param of each gradient; empty: `grads` has one for each param, in order.
            steps: the step count of each gradient's param, this step included; empty where the plan
                has `step_tensors`.
            options: lr, beta1, beta2, eps, weight_decay, adam_w_mode, bias_correction, maximize,
                clip_value (infinite: none) of each param group, one after the other.
            lr_tensors: of each group, instead of the numbers.
            grad_scale: as in :func:`adam_`, like the next three.
            found_inf: see there.
            clip_coef: see there.
            seed: of stochastic rounding.
            steps_changed: somebody else has written `step_tensors` since the last step.

        Returns:
            False where a registered tensor has other memory or another shape by now (its `.data`
            was replaced): nothing was done, and the plan must be made anew.
        """
        moved = self._step(
            self._handle,
            grads,
            rows,
            steps,
            options,
            lr_tensors or [],
            grad_scale,
            found_inf,
            clip_coef,
            None,
            seed,
            steps_changed,
        )
        return bool(moved == -1)

    def __del__(self) -> None:
        if self._handle is not None:
            self._free(self._handle)
