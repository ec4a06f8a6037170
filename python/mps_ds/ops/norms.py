"""Norms and overflow checks over lists of tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .. import _fakes
from .. import _native as _native


@torch.no_grad()
def multi_tensor_l2norm(
    tensors: Sequence[Tensor], per_tensor: bool = False, *, norm_type: float = 2.0
) -> Tensor | tuple[Tensor, Tensor]:
    r"""The norm of all elements of a list, and that of each tensor, from one read of the data.

    .. math:: \|x\|_2 = \sqrt{\textstyle\sum_i x_i^2}, \qquad \|x\|_\infty = \max_i |x_i|

    Within 2 ulp of the exact value for any number of elements of any magnitude: squares neither
    overflow nor vanish (docs/norms.md). The same input gives the same bits, always.

    Args:
        tensors: float32, float16 or bfloat16, mixed as you like; any shapes and strides, one
            device.
        per_tensor: also give the norm of each tensor.
        norm_type: 2 or ``inf``.

    Returns:
        The norm, 0-dim float32 on the device of the tensors (0 on the CPU, if there are none); with
        `per_tensor` a pair of it and a 1-d tensor with one norm for each tensor. inf or NaN where
        the tensors hold such, inf also where the norm exceeds the largest float32.

    Raises:
        RuntimeError: for other dtypes, several devices, sparse tensors, another `norm_type`.
    """
    total, norms = torch.ops.mps_ds.multi_tensor_l2norm(list(tensors), norm_type, per_tensor)
    return (total, norms) if per_tensor else total


@torch.no_grad()
def multi_tensor_non_finite(tensors: Sequence[Tensor]) -> Tensor:
    """Whether any element of a list is infinite or NaN.

    Args:
        tensors: as in :func:`multi_tensor_l2norm`.

    Returns:
        ``found_inf``: 1.0 or 0.0, 0-dim float32 on the device of the tensors, as
        :class:`torch.amp.GradScaler` and the fused optimizers take it. Looks at the elements
        alone: a sum of theirs that is too large does not count.

    Raises:
        RuntimeError: as :func:`multi_tensor_l2norm`.
    """
    found_inf: Tensor = torch.ops.mps_ds.multi_tensor_non_finite(list(tensors))
    return found_inf


@torch.no_grad()
def norm_and_non_finite(
    tensors: Sequence[Tensor],
    groups: Sequence[int] | None = None,
    in_norm: Sequence[bool] | None = None,
    *,
    norm_type: float = 2.0,
) -> tuple[Tensor, Tensor]:
    """Norms of a list and whether any element is infinite or NaN, from one read of the data.

    Args:
        tensors: as in :func:`multi_tensor_l2norm`.
        groups: the number of each tensor's group, counted from 0; None: one norm of all.
        in_norm: False (or 0) for tensors that belong to no norm (replicated or padding); they still
            count for found_inf. None: all belong.
        norm_type: 2 or ``inf``.

    Returns:
        (norms, found_inf): norms is 0-dim without `groups`, else 1-d with one norm for each group
        up to the largest number, 0 for groups without tensors. Both float32, on the device of the
        tensors.

    Raises:
        RuntimeError: as :func:`multi_tensor_l2norm`; also where `groups` or `in_norm` have another
            length than `tensors`, or a group is negative.
    """
    tensors = list(tensors)
    of_tensor = [0] * len(tensors) if groups is None else [int(group) for group in groups]
    count = -1 if groups is None else max(of_tensor, default=-1) + 1
    for i, group in enumerate(of_tensor):
        if group < 0:
            raise RuntimeError(f"mps_ds: groups[{i}] is {group}; groups are counted from 0")
    if in_norm is not None:
        if len(in_norm) != len(of_tensor):
            raise RuntimeError(
                f"mps_ds: in_norm has {len(in_norm)} entries, tensors has {len(tensors)}"
            )
        of_tensor = [g if belongs else -1 for g, belongs in zip(of_tensor, in_norm, strict=True)]
    norms, found_inf = torch.ops.mps_ds.norm_and_non_finite(tensors, of_tensor, count, norm_type)
    return norms, found_inf


def _float32(like: Sequence[Tensor], *size: int) -> Tensor:
    device = like[0].device if like else torch.device("cpu")
    return torch.empty(size, dtype=torch.float32, device=device)


def _fake_l2norm(
    tensors: Sequence[Tensor], norm_type: float = 2.0, per_tensor: bool = False
) -> tuple[Tensor, Tensor]:
    return _float32(tensors), _float32(tensors, len(tensors) if per_tensor else 0)


def _fake_non_finite(tensors: Sequence[Tensor]) -> Tensor:
    return _float32(tensors)


def _fake_norm_and_non_finite(
    tensors: Sequence[Tensor], groups: Sequence[int], group_count: int, norm_type: float = 2.0
) -> tuple[Tensor, Tensor]:
    norms = _float32(tensors) if group_count < 0 else _float32(tensors, group_count)
    return norms, _float32(tensors)


def _fake_grad_norm(
    grads: Sequence[Tensor], grad_scale: Tensor | None, max_norm: float, norm_type: float
) -> tuple[Tensor, Tensor, Tensor]:
    return _float32(grads), _float32(grads), _float32(grads)


_fakes.register(torch.ops.mps_ds.multi_tensor_l2norm.default, _fake_l2norm)
_fakes.register(torch.ops.mps_ds.multi_tensor_non_finite.default, _fake_non_finite)
_fakes.register(torch.ops.mps_ds.norm_and_non_finite.default, _fake_norm_and_non_finite)
_fakes.register(torch.ops.mps_ds._grad_norm.default, _fake_grad_norm)
