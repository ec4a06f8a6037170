"""A step of plain float32 Adam: its float64 result, and how far roundings may take it from that.

The error of each operation is followed through the step (docs/numerics.md): every constant and
every result is off by at most half an ulp, and what goes in brings its own error along. The same
in C++ holds the core to it (tests/cpu_adam/core/reference.cpp).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from adam_reference import Options

U = 2.0**-24
TINY = 2.0**-149


class Bounded(NamedTuple):
    """Values and the largest errors that they may have."""

    value: np.ndarray
    error: np.ndarray


def exact(value) -> Bounded:
    value = np.asarray(value, dtype=np.float64)
    return Bounded(value, np.zeros_like(value))


def rounded(value, error) -> Bounded:
    return Bounded(value, error + U * (np.abs(value) + error) + TINY)


def term_error(c: float, x: Bounded):
    """Of c * x before it is rounded, where c is a constant in float32."""
    return abs(c) * x.error + U * abs(c) * (np.abs(x.value) + x.error)


def product(c: float, x: Bounded) -> Bounded:
    return rounded(c * x.value, term_error(c, x))


def fused(c: float, x: Bounded, y: Bounded) -> Bounded:
    """fma(c, x, y)"""
    return rounded(c * x.value + y.value, term_error(c, x) + y.error)


def times(x: Bounded, y: Bounded) -> Bounded:
    error = np.abs(x.value) * y.error + np.abs(y.value) * x.error + x.error * y.error
    return rounded(x.value * y.value, error)


def root(x: Bounded) -> Bounded:
    value = np.sqrt(x.value)
    low, high = np.sqrt(np.maximum(0, x.value - x.error)), np.sqrt(x.value + x.error)
    return rounded(value, np.maximum(high - value, value - low))


def quotient(x: Bounded, y: Bounded) -> Bounded:
    value = x.value / y.value
    return rounded(value, (x.error + np.abs(value) * y.error) / (y.value - y.error))


def float64(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().double().numpy()


def plain_step(tensors, step: int, o: Options, grad_scale: float = 1.0) -> list[Bounded]:
    """Param, exp_avg, exp_avg_sq (and max_exp_avg_sq, if given) after a step.

    `tensors`: param, grad, exp_avg, exp_avg_sq and, for amsgrad, max_exp_avg_sq, before it.
    """
    param, grad, exp_avg, exp_avg_sq = (exact(float64(t)) for t in tensors[:4])
    factor = (-1.0 if o.maximize else 1.0) / grad_scale
    if factor != 1:
        grad = product(factor, grad)
    if not o.adam_w_mode and o.weight_decay:
        grad = fused(o.weight_decay, param, grad)
    exp_avg = fused(o.beta1, exp_avg, product(1 - o.beta1, grad))
    exp_avg_sq = fused(o.beta2, exp_avg_sq, times(product(1 - o.beta2, grad), grad))
    largest = exp_avg_sq
    if len(tensors) > 4:
        largest = Bounded(np.maximum(float64(tensors[4]), exp_avg_sq.value), exp_avg_sq.error)

    correction1 = 1 - o.beta1**step if o.bias_correction else 1.0
    correction2 = 1 - o.beta2**step if o.bias_correction else 1.0
    eps = Bounded(np.float64(o.eps), np.float64(U * o.eps))
    denominator = fused(1 / np.sqrt(correction2), root(largest), eps)
    decay = o.lr * o.weight_decay if o.adam_w_mode else 0.0
    kept = fused(-decay, param, param) if decay else param
    param = fused(-o.lr / correction1, quotient(exp_avg, denominator), kept)
    return [param, exp_avg, exp_avg_sq, *([largest] if len(tensors) > 4 else [])]


def half_ulp(x: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """Of a 16-bit type; 0 for float32, whose rounding is an operation's."""
    if dtype == torch.float32:
        return np.zeros_like(x)
    digits, lowest = {torch.float16: (11, -14), torch.bfloat16: (8, -126)}[dtype]
    exponent = np.frexp(np.maximum(np.abs(x), 2.0**lowest))[1] - 1
    return 2.0 ** (np.maximum(exponent, lowest) - digits)


def assert_bounded(got: torch.Tensor, want: Bounded, what: str) -> None:
    """Within the error, and one rounding to the dtype of `got`."""
    limit = want.error + half_ulp(np.abs(want.value) + want.error, got.dtype)
    error = np.abs(float64(got) - want.value)
    bad = ~(error <= limit)
    if bad.any():
        i = np.unravel_index(np.argmax(bad), bad.shape)
        raise AssertionError(
            f"{what}{list(i)} is {float64(got)[i]!r}, in float64 {want.value[i]!r}: off by "
            f"{error[i]:.3g}, allowed {limit[i]:.3g} ({bad.sum()} of {bad.size} elements)"
        )
