"""Adam in float64, and the bound that docs/numerics.md derives for ours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

U = 2.0**-24  # the largest relative error of one fp32 rounding
TINY = 2.0**-126  # what a device that flushes subnormals may lose


@dataclass(frozen=True)
class Options:
    """The options of one Adam step, with the defaults of adam_."""

    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    adam_w_mode: bool = True
    bias_correction: bool = True
    maximize: bool = False


@dataclass(frozen=True)
class Step:
    """A float64 step and the error that an fp32 one may have."""

    param: np.ndarray
    exp_avg: np.ndarray
    exp_avg_sq: np.ndarray
    param_bound: np.ndarray
    exp_avg_bound: np.ndarray
    exp_avg_sq_bound: np.ndarray


def ulp(x: np.ndarray) -> np.ndarray:
    """The spacing of fp32 numbers at |x|."""
    with np.errstate(over="ignore"):
        return np.spacing(np.abs(x).astype(np.float32)).astype(np.float64)


def adam(param, grad, exp_avg, exp_avg_sq, step: int, o: Options) -> Step:
    """One step in float64 of fp32 arrays, and how far the kernel's may be from it.

    A stored value is float64's rounded once: half an ulp of it, and the error of the pairs of
    floats before, under 2^-18 ulp of the largest term that it is the sum of.
    """
    p, g, m, v = (np.asarray(x, dtype=np.float64) for x in (param, grad, exp_avg, exp_avg_sq))
    lr_t = o.lr / (1 - o.beta1**step if o.bias_correction else 1.0)
    root = np.sqrt(1 - o.beta2**step) if o.bias_correction else 1.0
    g = -g if o.maximize else g
    l2 = 0.0 if o.adam_w_mode else o.weight_decay * p
    kept = p * (1 - o.lr * o.weight_decay) if o.adam_w_mode else p

    largest_g = np.maximum(np.abs(g), np.abs(l2))  # where these cancel, so does all that follows
    g = g + l2
    m1 = o.beta1 * m + (1 - o.beta1) * g
    largest_m = np.maximum(np.abs(o.beta1 * m), (1 - o.beta1) * largest_g)
    v1 = o.beta2 * v + (1 - o.beta2) * g * g
    largest_v = np.maximum(o.beta2 * v, (1 - o.beta2) * np.abs(g) * largest_g)

    # A mean of squares beyond fp32's range is infinite from here on, and stops its element.
    seen = np.where(v1 > np.finfo(np.float32).max, np.inf, v1)
    denominator = np.sqrt(seen) / root + o.eps
    p1 = kept - lr_t * m1 / denominator
    largest_p = np.maximum(np.abs(kept), lr_t * largest_m / denominator)

    def bound(value, largest):
        return 0.5 * ulp(value) + 2.0**-18 * ulp(largest) + TINY

    # A device that flushes subnormals loses the low halves of small means of squares, and with them
    # some roundings of the update; a mean below 2^-126 it loses entirely.
    flushed = np.where(v1 < 2.0**-100, 4 * U * lr_t * largest_m / denominator, 0.0)
    flushed = flushed + TINY * lr_t / o.eps if o.eps else flushed
    return Step(
        p1, m1, v1, bound(p1, largest_p) + flushed, bound(m1, largest_m), bound(v1, largest_v)
    )


def assert_within(got, want: np.ndarray, bound: np.ndarray, what: str) -> float:
    """Assert |got - want| <= bound everywhere; return the worst error in ulp of the result."""
    got = np.asarray(got, dtype=np.float64).reshape(want.shape)
    overflow = np.abs(want) > np.finfo(np.float32).max
    error = np.abs(got - want)
    bad = np.where(overflow, got != np.copysign(np.inf, want), ~(error <= bound))
    if bad.any():
        i = np.unravel_index(np.argmax(np.where(bad, error / bound, 0)), want.shape)
        raise AssertionError(
            f"{what}{list(i)} is {got[i]!r}, in float64 {want[i]!r}: off by {error[i]:.3g}, "
            f"allowed {bound[i]:.3g} ({bad.sum()} of {bad.size} elements)"
        )
    return float((error / ulp(want))[~overflow].max(initial=0.0))


def assert_step(tensors, before, step: int, options: Options) -> dict[str, float]:
    """Compare (param, exp_avg, exp_avg_sq) tensors with a float64 step from `before`.

    `before` holds fp32 arrays: param, grad, exp_avg, exp_avg_sq. Returns the worst errors in ulp.
    """
    want = adam(*before, step, options)
    got = [t.detach().cpu().numpy() for t in tensors]
    return {
        name: assert_within(value, getattr(want, name), getattr(want, f"{name}_bound"), name)
        for name, value in zip(("param", "exp_avg", "exp_avg_sq"), got, strict=True)
    }
