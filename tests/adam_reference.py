"""Assertions on Adam steps: every element within its bound of the float64 step.

The step and the bound are those of the self test (mps_ds.selftest.reference), which users see.
"""

from __future__ import annotations

import numpy as np

from mps_ds.selftest.reference import HALF_ULP, LARGEST, Options, Values, adam, ulp

__all__ = ["HALF_ULP", "Options", "Values", "adam", "assert_step", "assert_within"]


def assert_within(got, want: np.ndarray, bound: np.ndarray, what: str) -> float:
    """Assert |got - want| <= bound everywhere; return the worst error in ulp of the result."""
    got = np.asarray(got, dtype=np.float64).reshape(want.shape)
    overflow = np.abs(want) > LARGEST
    error = np.abs(got - want)
    bad = np.where(overflow, got != np.copysign(np.inf, want), ~(error <= bound))
    if bad.any():
        i = np.unravel_index(np.argmax(bad), want.shape)
        raise AssertionError(
            f"{what}{list(i)} is {got[i]!r}, in float64 {want[i]!r}: off by {error[i]:.3g}, "
            f"allowed {bound[i]:.3g} ({bad.sum()} of {bad.size} elements)"
        )
    return float((error[~overflow] / ulp(want[~overflow])).max(initial=0.0))


def assert_step(tensors, before, step: int, options: Options) -> dict[str, float]:
    """Compare (param, exp_avg, exp_avg_sq) tensors with a float64 step from `before`.

    `before` holds fp32 arrays: param, grad, exp_avg, exp_avg_sq. Returns the worst errors in ulp.
    """
    param, grad, exp_avg, exp_avg_sq = (np.asarray(x, dtype=np.float64) for x in before)
    want = adam(Values(param, exp_avg, exp_avg_sq), grad, step, options)
    return {
        name: assert_within(tensor.detach().cpu().numpy(), value, bound, name)
        for name, tensor, value, bound in zip(
            Values._fields, tensors, want.values, want.allowed, strict=True
        )
    }
