"""Adam in float64, and the bound that docs/numerics.md derives for ours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

U = 2.0**-24  # half an ulp of 1: the largest relative error of one fp32 rounding
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
    """One step in float64 of fp32 arrays."""
    p, g, m, v = (np.asarray(x, dtype=np.float64) for x in (param, grad, exp_avg, exp_avg_sq))
    # The numbers that do not change within a step reach the kernel as fp32.
    lr_t = o.lr / (1 - o.beta1**step if o.bias_correction else 1.0)
    root = np.sqrt(1 - o.beta2**step) if o.bias_correction else 1.0
    g = -g if o.maximize else g
    l2_bound = 0.0
    if not o.adam_w_mode and o.weight_decay:
        g = g + o.weight_decay * p
        # One rounding of the sum, one of the constant.
        l2_bound = 0.5 * ulp(g) + U * np.abs(o.weight_decay * p)
    decayed = p * (1 - o.lr * o.weight_decay) if o.adam_w_mode else p

    m_old, m_new = o.beta1 * m, (1 - o.beta1) * g
    m1 = m_old + m_new
    largest_m = np.maximum.reduce([np.abs(m_old), np.abs(m_new), np.abs(m1)])
    m_bound = ulp(largest_m) + (1 - o.beta1) * l2_bound + TINY

    v1 = o.beta2 * v + (1 - o.beta2) * g * g
    v_bound = 2 * ulp(v1) + 2 * (1 - o.beta2) * np.abs(g) * l2_bound + TINY

    # A mean of squares beyond fp32's range is infinite from here on, and stops its element.
    seen = np.where(v1 > np.finfo(np.float32).max, np.inf, v1)
    denominator = np.sqrt(seen) / root + o.eps
    update = lr_t * m1 / denominator
    p1 = decayed - update
    # 8 roundings of the update beside those of the two sums; l2 reaches it through m and v.
    scale = lr_t * largest_m / denominator
    l2_relative = (1 - o.beta1) * l2_bound / np.maximum(largest_m, TINY)
    l2_relative = l2_relative + (1 - o.beta2) * np.abs(g) * l2_bound / np.maximum(v1, TINY)
    p_bound = (
        0.5 * ulp(p1)
        + (0.5 * ulp(decayed) if decayed is not p else 0.0)
        + U * np.abs(p - decayed)
        + scale * (8 * U * (1 + 1e-3) + l2_relative)
        + TINY * (1 + lr_t / o.eps if o.eps else 1)
    )
    return Step(p1, m1, v1, p_bound, m_bound, v_bound)


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
