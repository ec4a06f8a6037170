"""Adam and AdamW in float64, and how far a float32 result is from it.

The formulas are those of torch.optim.Adam and torch.optim.AdamW (Kingma and Ba, 2015; Loshchilov
and Hutter, 2019).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SMALLEST_NORMAL = 2.0**-126
"""Apple GPUs flush what is smaller to zero: an error up to this is none."""


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


def adam(before: Values, grad: Array, step: int, options: Options) -> tuple[Values, Values]:
    """One step: the values after it, and the largest term that each was summed from.

    Where terms cancel, the result is smaller than they were and holds their rounding, not its own:
    errors are therefore counted in units of the largest term.
    """
    o = options
    param, exp_avg, exp_avg_sq = before
    grad = -grad if o.maximize else grad
    largest_grad = np.abs(grad)
    if not o.adam_w_mode:
        largest_grad = np.maximum(largest_grad, np.abs(o.weight_decay * param))
        grad = grad + o.weight_decay * param

    new_avg = o.beta1 * exp_avg + (1 - o.beta1) * grad
    largest_avg = np.maximum(np.abs(o.beta1 * exp_avg), (1 - o.beta1) * largest_grad)
    new_avg_sq = o.beta2 * exp_avg_sq + (1 - o.beta2) * grad**2
    largest_avg_sq = np.maximum(o.beta2 * exp_avg_sq, (1 - o.beta2) * largest_grad**2)

    correction1 = 1 - o.beta1**step if o.bias_correction else 1.0
    correction2 = 1 - o.beta2**step if o.bias_correction else 1.0
    factor = o.lr / correction1 / (np.sqrt(new_avg_sq / correction2) + o.eps)
    decay = o.lr * o.weight_decay * param if o.adam_w_mode else np.zeros_like(param)
    new_param = param - decay - factor * new_avg
    largest_param = np.maximum(np.maximum(np.abs(param), np.abs(decay)), factor * largest_avg)
    return (
        Values(new_param, new_avg, new_avg_sq),
        Values(largest_param, largest_avg, largest_avg_sq),
    )


def error_in_ulp(got: NDArray[np.float32], wanted: Array, largest: Array) -> float:
    """The worst error, in float32 units in the last place of the largest term; NaN gives inf."""
    if got.size == 0:
        return 0.0
    if not np.isfinite(got).all():
        return float("inf")
    error = np.abs(got.astype(np.float64) - wanted)
    error[error <= SMALLEST_NORMAL] = 0.0
    ulp = np.spacing(np.maximum(largest, SMALLEST_NORMAL).astype(np.float32)).astype(np.float64)
    return float(np.max(error / ulp))
