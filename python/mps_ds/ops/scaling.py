"""Scaling of lists of tensors, with overflow checks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .. import _native

_native.writes_in_place(
    "multi_tensor_unscale_", "multi_tensor_scale_", "multi_tensor_axpby_", "_multiply_"
)


@torch.no_grad()
def multi_tensor_unscale_(
    grads: Sequence[Tensor], found_inf: Tensor, inv_scale: Tensor | float
) -> None:
    """Multiplies gradients by `inv_scale` in place, and notes whether any is infinite or NaN.

    What :class:`torch.amp.GradScaler` needs (torch._amp_foreach_non_finite_check_and_unscale_), in
    one dispatch for any number of tensors. Where `inv_scale` is 1, gradients are only read.

    Args:
        grads: float32, float16 or bfloat16, mixed as you like; any strides, one device. Written.
        found_inf: one float32 (or int32) on that device. Set to 1 where a gradient was infinite or
            NaN before it was scaled, else left as it is: never cleared.
        inv_scale: a number, or one float32 on that device, which is read there.

    Raises:
        RuntimeError: before anything is written, for other dtypes, several devices, sparse tensors,
            tensors that share memory. Names the argument and its position.
    """
    tensor, number = (inv_scale, 1.0) if isinstance(inv_scale, Tensor) else (None, inv_scale)
    torch.ops.mps_ds.multi_tensor_unscale_(list(grads), found_inf, tensor, number)


@torch.no_grad()
def multi_tensor_scale(
    chunk_size: int, noop_flag: Tensor, tensor_lists: Sequence[Sequence[Tensor]], scale: float
) -> None:
    """``outputs = scale * inputs``, as apex's amp_C.multi_tensor_scale.

    The product is computed in fp32 and rounded once to the output's type.

    Args:
        chunk_size: ignored; the kernel has its own.
        noop_flag: one int32 or float32 on the device of the tensors. Set to 1 where an input is
            infinite or NaN, which are passed on; else left as it is. It is not read: a set flag
            stops nothing here.
        tensor_lists: [inputs, outputs]; float32, float16 or bfloat16 each, pairs of one shape, any
            strides. An output may be its own input. Outputs are written.
        scale: the factor.

    Raises:
        RuntimeError: as :func:`multi_tensor_unscale_`.
    """
    inputs, outputs = _lists(tensor_lists, "[inputs, outputs]", 2)
    torch.ops.mps_ds.multi_tensor_scale_(inputs, outputs, noop_flag, scale)


@torch.no_grad()
def multi_tensor_axpby(
    chunk_size: int,
    noop_flag: Tensor,
    tensor_lists: Sequence[Sequence[Tensor]],
    a: float,
    b: float,
    arg_to_check: int = -1,
) -> None:
    """``outputs = a * x + b * y``, as apex's amp_C.multi_tensor_axpby.

    Computed in fp32 as ``fma(a, x, b * y)`` and rounded once to the output's type.

    Args:
        chunk_size: ignored; the kernel has its own.
        noop_flag: as in :func:`multi_tensor_scale`.
        tensor_lists: [x, y, outputs]; float32, float16 or bfloat16 each, one shape in each place,
            any strides. An output may be its own x or y. Outputs are written.
        a: factor of x.
        b: factor of y.
        arg_to_check: what is looked at for `noop_flag`: 0 for x, 1 for y, -1 for both.

    Raises:
        RuntimeError: as :func:`multi_tensor_unscale_`; also for another `arg_to_check`.
    """
    x, y, outputs = _lists(tensor_lists, "[x, y, outputs]", 3)
    torch.ops.mps_ds.multi_tensor_axpby_(x, y, outputs, noop_flag, a, b, arg_to_check)


def _lists(lists: Sequence[Sequence[Tensor]], meaning: str, count: int) -> list[list[Tensor]]:
    if len(lists) != count:
        raise RuntimeError(f"mps_ds: tensor_lists has {len(lists)} lists; it must be {meaning}")
    return [list(tensors) for tensors in lists]
