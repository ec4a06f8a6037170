"""Adam and AdamW in float64, and how far a float32 step may be from it.

The formulas are those of torch.optim.Adam and torch.optim.AdamW (Kingma and Ba, 2015; Loshchilov
and Hutter, 2019); docs/numerics.md derives the bounds from the roundings of the kernel.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

HALF_ULP = 2.0**-24
"""The largest relative error of one float32 rounding."""
SMALLEST_NORMAL = 2.0**-126
"""Apple GPUs flush what is smaller to zero."""


@dataclass(frozen=True)
class Options:
    """The scalars of one step; `mps_ds.ops.adam_` takes them as keywords of these names."""

    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    adam_w_mode: bool = True
    bias_correction: bool = True
    maximize: bool = False


class Values(NamedTuple):
    """param, exp_avg and exp_avg_sq, or something of their three shapes."""

    param: Array
    exp_avg: Array
    exp_avg_sq: Array


class Step(NamedTuple):
    """A step in float64, and what a float32 step is measured with."""

    values: Values
    largest: Values
    """The largest term that each value was summed from: where terms cancel, the sum is smaller
    than its terms and holds their rounding, so errors are counted in units of the largest."""
    allowed: Values
    """The largest error that the kernel's roundings can add up to."""


class Error(NamedTuple):
    """The worst error: in ulp of the largest term, and as a share of what is allowed."""

    ulp: float = 0.0
    share: float = 0.0

    def or_worse(self, other: "Error") -> "Error":
        """The worst of both, each in its own unit."""
        return Error(max(self.ulp, other.ulp), max(self.share, other.share))


def ulp(x: Array) -> Array:
    """The spacing of float32 numbers at |x|."""
    return np.spacing(np.maximum(np.abs(x), SMALLEST_NORMAL).astype(np.float32)).astype(np.float64)


def adam(before: Values, grad: Array, step: int, options: Options) -> Step:
    """One step in float64; `step` counts from 1."""
    o = options
    param, exp_avg, exp_avg_sq = before
    grad = -grad if o.maximize else grad
    grad_error = np.zeros_like(grad)
    largest_grad = np.abs(grad)
    if o.adam_w_mode:
        decayed = param * (1 - o.lr * o.weight_decay)
    else:
        decayed = param
        largest_grad = np.maximum(largest_grad, np.abs(o.weight_decay * param))
        grad = grad + o.weight_decay * param
        grad_error = 0.5 * ulp(grad) + HALF_ULP * np.abs(o.weight_decay * param)

    avg_terms = o.beta1 * exp_avg, (1 - o.beta1) * grad
    new_avg = avg_terms[0] + avg_terms[1]
    largest_avg = np.maximum(np.abs(avg_terms[0]), np.abs(avg_terms[1]))
    avg_error = (1 - o.beta1) * grad_error
    new_avg_sq = o.beta2 * exp_avg_sq + (1 - o.beta2) * grad**2
    avg_sq_error = 2 * (1 - o.beta2) * np.abs(grad) * grad_error

    lr = o.lr / (1 - o.beta1**step) if o.bias_correction else o.lr
    root_correction = np.sqrt(1 - o.beta2**step) if o.bias_correction else 1.0
    factor = lr / (np.sqrt(new_avg_sq) / root_correction + o.eps)
    new_param = decayed - factor * new_avg
    largest_update = factor * largest_avg
    # The error of the gradient reaches the update through both averages; eight roundings add to it.
    inherited = avg_error / np.maximum(largest_avg, SMALLEST_NORMAL)
    inherited += 0.5 * avg_sq_error / np.maximum(new_avg_sq, SMALLEST_NORMAL)
    return Step(
        Values(new_param, new_avg, new_avg_sq),
        Values(
            np.maximum(np.abs(param), largest_update),
            np.maximum(largest_avg, (1 - o.beta1) * largest_grad),
            np.maximum(new_avg_sq, (1 - o.beta2) * largest_grad**2),
        ),
        Values(
            0.5 * ulp(new_param)
            + (0.5 * ulp(decayed) if o.adam_w_mode else 0.0)
            + HALF_ULP * np.abs(param - decayed)
            + largest_update * (8 * HALF_ULP * 1.001 + inherited)
            + SMALLEST_NORMAL * (1 + (lr / o.eps if o.eps else 0)),
            ulp(np.maximum(largest_avg, np.abs(new_avg))) + avg_error + SMALLEST_NORMAL,
            2 * ulp(new_avg_sq) + avg_sq_error + SMALLEST_NORMAL,
        ),
    )


def compare(got: NDArray[np.float32], wanted: Array, largest: Array, allowed: Array) -> Error:
    """The worst error of any element; infinite for one that is not finite."""
    if got.size == 0:
        return Error()
    if not np.isfinite(got).all():
        return Error(np.inf, np.inf)
    error = np.abs(got.astype(np.float64) - wanted)
    return Error(float(np.max(error / ulp(largest))), float(np.max(error / allowed)))
