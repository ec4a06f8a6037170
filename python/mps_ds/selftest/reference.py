"""Adam and AdamW in float64, and how far a float32 step may be from it.

The formulas are those of torch.optim.Adam and torch.optim.AdamW (Kingma and Ba, 2015; Loshchilov
and Hutter, 2019); docs/numerics.md says why the kernel keeps the bounds.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

HALF_ULP = 2.0**-24
"""The largest relative error of one float32 rounding."""
LARGEST = float(np.finfo(np.float32).max)
PAIR = 2.0**-18
"""Error of calculating with pairs of floats, in ulp of the largest term."""
SMALLEST_NORMAL = 2.0**-126
"""Apple GPUs flush what is smaller to zero."""
FLUSHED = 10 * SMALLEST_NORMAL
"""What a result may lose by it: a low half comes of up to ten operations, each flushed."""


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
    """The largest of each value and of the terms that it was summed from: where terms cancel, the
    sum is smaller than they are and holds their rounding, so errors are counted in units of it."""
    allowed: Values
    """The largest error that the kernel may have: one rounding of the result, and 2^-18 ulp of the
    largest term for the pairs of floats that it calculates with."""


class Error(NamedTuple):
    """The worst error: in ulp of the largest term, and as a share of what is allowed."""

    ulp: float = 0.0
    share: float = 0.0

    def or_worse(self, other: "Error") -> "Error":
        """The worst of both, each in its own unit."""
        return Error(max(self.ulp, other.ulp), max(self.share, other.share))


def ulp(x: Array) -> Array:
    """The spacing of float32 numbers at |x|."""
    within = np.clip(np.abs(x), SMALLEST_NORMAL, 2.0**127)  # one more would overflow
    return np.spacing(within.astype(np.float32)).astype(np.float64)


def adam(before: Values, grad: Array, step: int, options: Options) -> Step:
    """One step in float64; `step` counts from 1."""
    o = options
    param, exp_avg, exp_avg_sq = before
    grad = -grad if o.maximize else grad
    kept = param * (1 - o.lr * o.weight_decay) if o.adam_w_mode else param
    l2 = 0 * param if o.adam_w_mode else o.weight_decay * param
    largest_grad = np.maximum(np.abs(grad), np.abs(l2))
    grad = grad + l2

    new_avg = o.beta1 * exp_avg + (1 - o.beta1) * grad
    largest_avg = np.maximum(np.abs(o.beta1 * exp_avg), (1 - o.beta1) * largest_grad)
    new_avg_sq = o.beta2 * exp_avg_sq + (1 - o.beta2) * grad**2
    largest_avg_sq = np.maximum(o.beta2 * exp_avg_sq, (1 - o.beta2) * np.abs(grad) * largest_grad)

    lr = o.lr / (1 - o.beta1**step) if o.bias_correction else o.lr
    root_correction = np.sqrt(1 - o.beta2**step) if o.bias_correction else 1.0
    # A mean of squares beyond float32 is infinite from here on, and stops its element.
    seen = np.where(new_avg_sq > LARGEST, np.inf, new_avg_sq)
    factor = lr / (np.sqrt(seen) / root_correction + o.eps)
    new_param = kept - factor * new_avg
    largest_param = np.maximum(np.abs(kept), factor * largest_avg)
    # Flushing subnormals loses the low halves of small means of squares, and with them some
    # roundings of the update; and a mean below the smallest normal number entirely.
    share = FLUSHED / 2 / np.maximum(new_avg_sq, 2.0**-100)  # of its root
    flushed = np.where(new_avg_sq < 2.0**-100, 4 * HALF_ULP, share) * factor * largest_avg
    flushed += SMALLEST_NORMAL * lr / o.eps if o.eps else 0.0

    values = Values(new_param, new_avg, new_avg_sq)
    terms = (largest_param, largest_avg, largest_avg_sq)
    largest = Values(*map(np.maximum, terms, map(np.abs, values)))
    rounded = [
        0.5 * ulp(value) + PAIR * ulp(term) + FLUSHED
        for value, term in zip(values, largest, strict=True)
    ]
    return Step(values, largest, Values(rounded[0] + flushed, *rounded[1:]))


def compare(got: NDArray[np.float32], wanted: Array, largest: Array, allowed: Array) -> Error:
    """The worst error of any element; infinite for one that is not finite."""
    if got.size == 0:
        return Error()
    if not np.isfinite(got).all():
        return Error(np.inf, np.inf)
    error = np.abs(got.astype(np.float64) - wanted)
    return Error(float(np.max(error / ulp(largest))), float(np.max(error / allowed)))


def plain_allowed(before: Values, wanted: Step, step: int, options: Options) -> Values:
    """The largest error of a step in plain float32 (docs/numerics.md), before any 16-bit store.

    That is how rows of 16-bit params and the CPU Adam are calculated. For gradients without an L2
    penalty, which could cancel.
    """
    largest = np.maximum(np.abs(before.param), wanted.largest.param)
    decay = options.lr * options.weight_decay
    return Values(
        HALF_ULP * (largest + 13 * update_bound(wanted, step, options))
        + (HALF_ULP * (1 + decay) * largest if decay else 0.0),
        5 * HALF_ULP * wanted.largest.exp_avg,
        6 * HALF_ULP * wanted.largest.exp_avg_sq,
    )


def update_bound(wanted: Step, step: int, options: Options) -> Array:
    """What the param changes by, as if the terms of the mean did not cancel."""
    o = options
    lr = o.lr / (1 - o.beta1**step) if o.bias_correction else o.lr
    root_correction = np.sqrt(1 - o.beta2**step) if o.bias_correction else 1.0
    root: Array = np.sqrt(wanted.values.exp_avg_sq) / root_correction
    return lr * wanted.largest.exp_avg / (root + o.eps)
