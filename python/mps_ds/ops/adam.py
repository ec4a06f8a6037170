"""Adam and AdamW over lists of tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .. import _native as _native


@torch.no_grad()
def adam_(
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
) -> None:
    r"""One Adam or AdamW step of any number of tensors, in place and in one dispatch.

    For each element, in fp32 (:math:`g` is negated to maximize):

    .. math::
        p &\leftarrow (1 - \eta\lambda)\, p \quad\text{(AdamW)}, \qquad
        g \leftarrow g + \lambda p \quad\text{(Adam)} \\
        m &\leftarrow \beta_1 m + (1 - \beta_1) g, \qquad
        v \leftarrow \beta_2 v + (1 - \beta_2) g^2 \\
        p &\leftarrow p - \frac{\eta}{1 - \beta_1^t}\,
             \frac{m}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}

    (Kingma and Ba, 2015, algorithm 1; Loshchilov and Hutter, 2019, algorithm 2.)

    Args:
        params: float32 tensors of any shape and strides, all on one device. Written.
        grads: one for each param, of its shape; strides may differ.
        exp_avgs: running means of the gradients (:math:`m`), as `grads`. Written.
        exp_avg_sqs: running means of their squares (:math:`v`), as `grads`. Written.
        steps: :math:`t`, counted from 1 and including this step; one for all, or one for each.
        lr: :math:`\eta`, at least 0.
        beta1: in [0, 1).
        beta2: in [0, 1).
        eps: 0, or at least 2^-126 (1.2e-38).
        weight_decay: :math:`\lambda`.
        adam_w_mode: AdamW's decoupled weight decay; False: Adam's L2 penalty.
        bias_correction: False takes :math:`1 - \beta^t` for 1.
        maximize: ascend instead.

    Raises:
        RuntimeError: before anything is written, for lists of different lengths, other dtypes,
            devices or shapes, sparse tensors, tensors that share memory with one that is written, a
            number outside its range. Names the argument and its position.
    """
    torch.ops.mps_ds.adam_(
        list(params),
        list(grads),
        list(exp_avgs),
        list(exp_avg_sqs),
        [steps] if isinstance(steps, int) else list(steps),
        lr,
        beta1,
        beta2,
        eps,
        weight_decay,
        adam_w_mode,
        bias_correction,
        maximize,
    )


class AdamPlan:
    """Params and their states registered once, so that a step passes gradients only.

    Made for optimizers: `params`, `exp_avgs` and `exp_avg_sqs` as in :func:`adam_`, on `mps`;
    `groups[i]` is the number of the param group of `params[i]`. The plan holds its tensors.
    """

    def __init__(
        self,
        params: Sequence[Tensor],
        exp_avgs: Sequence[Tensor],
        exp_avg_sqs: Sequence[Tensor],
        groups: Sequence[int],
    ) -> None:
        ops = torch.ops.mps_ds
        self._handle: int | None = None
        self._free = ops._adam_plan_free.default
        self._step = ops._adam_plan_step.default
        self._handle = ops._adam_plan(list(params), list(exp_avgs), list(exp_avg_sqs), list(groups))

    def step(
        self,
        grads: list[Tensor],
        rows: list[int],
        steps: list[int],
        options: list[float],
    ) -> bool:
        """One step; nothing is written where it raises.

        Args:
            grads: float32 tensors of their param's shape.
            rows: the param of each gradient; empty: `grads` has one for each param, in order.
            steps: the step count of each gradient's param, this step included.
            options: lr, beta1, beta2, eps, weight_decay, adam_w_mode, bias_correction, maximize of
                each param group, one after the other.

        Returns:
            False where a registered tensor has other memory or another shape by now (its `.data`
            was replaced): nothing was done, and the plan must be made anew.
        """
        return bool(self._step(self._handle, grads, rows, steps, options) == -1)

    def __del__(self) -> None:
        if self._handle is not None:
            self._free(self._handle)
