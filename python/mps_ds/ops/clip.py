"""Gradient clipping that waits for nothing."""

from __future__ import annotations

import math
import types
import warnings
from collections.abc import Iterable

import torch
from torch import Tensor

from .. import _native as _native

_NON_FINITE = (
    "The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it "
    "cannot be clipped. To disable this error and scale the gradients by the non-finite norm "
    "anyway, set `error_if_nonfinite=False`"
)


@torch.no_grad()
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    r"""Scales gradients in place so that their norm is at most `max_norm`.

    In place of :func:`torch.nn.utils.clip_grad_norm_`: gradients are multiplied by

    .. math:: \min\left(1, \frac{max\_norm}{\|g\| + 10^{-6}}\right)

    in fp32, rounded once to their own type. One read for the norm (two dispatches), one pass for
    the scaling (one dispatch), which writes nothing where the factor is 1. Norms of other orders
    than 2 and infinity are computed by torch; the scaling is the same.

    Args:
        parameters: a tensor or an iterable of such; those without a gradient are passed over.
            Gradients are float32, float16 or bfloat16, mixed as you like, on one device. Written.
        max_norm: the largest norm; infinity leaves the gradients as they are, whatever the norm.
        norm_type: 2, infinity (or "inf"), or any other order p.
        error_if_nonfinite: raise where the norm is infinite or NaN. Only this waits for the GPU.
        foreach: accepted for the sake of callers; there is one implementation.

    Returns:
        The norm before scaling, 0-dim float32 on the gradients' device (0 on the CPU without
        gradients).

    Raises:
        RuntimeError: before anything is written, for gradients of other dtypes, on several devices,
            sparse, or sharing memory; for a non-finite norm, if asked for.
    """
    grads = _grads_of(parameters)
    max_norm, norm_type = float(max_norm), float(norm_type)
    if not grads:
        return torch.tensor(0.0)
    norm: Tensor
    if norm_type in (2.0, math.inf):
        norm, _, factor = torch.ops.mps_ds._grad_norm(grads, None, max_norm, norm_type)
    else:
        norm = torch.nn.utils.get_total_norm(grads, norm_type).float()
        factor = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    if error_if_nonfinite and not math.isfinite(norm.item()):
        raise RuntimeError(_NON_FINITE.format(norm_type=norm_type))
    if max_norm != math.inf:
        torch.ops.mps_ds._multiply_(grads, factor)
    return norm


def _grads_of(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    listed = list(parameters)
    if isinstance(parameters, types.GeneratorType) and not listed:
        warnings.warn(
            "`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=4
        )
    return [p.grad for p in listed if p.grad is not None]
