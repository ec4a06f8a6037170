"""Mixed precision: 16-bit params, and a step that unscales, looks for overflow and clips."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mps_ds.selftest.checks.dispatch import counted, counters_available, returns_while_busy
from mps_ds.selftest.checks.gradients import NORM_ULP, exact_norm, norm_error
from mps_ds.selftest.checks.numerics import random_four
from mps_ds.selftest.reference import (
    HALF_ULP,
    Array,
    Options,
    Step,
    Values,
    adam,
    plain_allowed,
    update_bound,
)
from mps_ds.selftest.report import Figure

OPTIONS = Options(lr=1e-2, weight_decay=0.1)
SHAPES = ((257, 129), (64,), (10_001,))
MAX_NORM = 1.0


def float64(tensor: Tensor) -> Array:
    """Its values."""
    return tensor.detach().cpu().double().numpy()


def half_ulp(values: Array, dtype: torch.dtype) -> Array:
    """What rounding to a 16-bit type may lose; float32's rounding is in the bounds already."""
    if dtype == torch.float32:
        return np.zeros_like(values)
    finfo = torch.finfo(dtype)
    return finfo.eps / 2 * np.maximum(np.abs(values), finfo.smallest_normal)


def share_of_allowed(got: list[Tensor], wanted: Values, allowed: Values) -> float:
    """The worst error of param, exp_avg, exp_avg_sq by what is allowed; 16-bit stores included."""
    worst = 0.0
    for tensor, value, bound in zip(got, wanted, allowed, strict=True):
        limit = bound + half_ulp(np.abs(value) + bound, tensor.dtype) + 2.0**-126
        error = np.abs(float64(tensor) - value) / limit
        worst = max(worst, float(np.max(np.where(np.isnan(error), np.inf, error))))
    return worst


def sixteen_bits() -> list[Figure]:
    """float16 and bfloat16 params, their states in float32 or in their own type."""
    from mps_ds import ops

    figures = []
    for dtype in (torch.float16, torch.bfloat16):
        for state in (torch.float32, dtype):
            worst = 0.0
            for seed, shape in enumerate(SHAPES):
                four = random_four(shape, seed)
                dtypes = (dtype, dtype, state, state)
                lists = [t.to(d) for t, d in zip(four, dtypes, strict=True)]
                param, grad, exp_avg, exp_avg_sq = map(float64, lists)
                before = Values(param, exp_avg, exp_avg_sq)
                p, g, m, v = ([tensor] for tensor in lists)
                ops.adam_(p, g, m, v, 3, **vars(OPTIONS))
                wanted = adam(before, grad, 3, OPTIONS)
                allowed = plain_allowed(before, wanted, 3, OPTIONS)
                got = [lists[0], lists[2], lists[3]]
                worst = max(worst, share_of_allowed(got, wanted.values, allowed))
            names = [str(d).removeprefix("torch.") for d in (dtype, state)]
            what = f"{names[0]} params, {names[1]} states: of the error allowed"
            figures.append(Figure(what, worst, "<=", 1.0))
    return figures


def scaled_step() -> list[Figure]:
    """`step(scaler=, max_norm=)` against float64; then one with an infinity, which is skipped."""
    from mps_ds.optim import FusedAdam

    sources = [random_four(shape, seed)[:2] for seed, shape in enumerate(SHAPES)]
    params = [nn.Parameter(param) for param, _ in sources]
    starts = [float64(param) for param in params]
    optimizer = FusedAdam(params, lr=OPTIONS.lr, weight_decay=OPTIONS.weight_decay)
    scaler = torch.amp.GradScaler("mps", init_scale=1024.0)
    scaler.scale(torch.ones((), device="mps"))  # makes its scale, as scaling a loss does
    for param, (_, grad) in zip(params, sources, strict=True):
        param.grad = grad * 1024.0  # a power of two: no rounding
    optimizer.step(scaler=scaler, max_norm=MAX_NORM)
    scaler.update()
    if optimizer.grad_norm is None:
        raise AssertionError("step(max_norm=) left no grad_norm")
    grads = [grad.cpu() for _, grad in sources]
    norm = exact_norm(grads)
    worst = 0.0
    for param, start, grad in zip(params, starts, grads, strict=True):
        got = [param, *(optimizer.state[param][name] for name in ("exp_avg", "exp_avg_sq"))]
        before = Values(start, 0 * start, 0 * start)
        wanted = adam(before, float64(grad) * (MAX_NORM / (norm + 1e-6)), 1, OPTIONS)
        worst = max(worst, share_of_allowed(got, wanted.values, _clipped_allowed(wanted)))
    return [
        Figure("norm of the unscaled gradients", norm_error(optimizer.grad_norm, norm), "<=",
               NORM_ULP, "ulp"),
        Figure("step with scaler and max_norm, of the error allowed", worst, "<=", 1.0),
        *_skipped_step(optimizer, scaler, params),
    ]  # fmt: skip


def _clipped_allowed(wanted: Step) -> Values:
    """The clip coefficient is off by 7 half ulps (gradients.CLIP_ERROR), and so is the gradient."""
    off = 7 * HALF_ULP
    param, exp_avg, exp_avg_sq = wanted.allowed
    return Values(
        param + 2 * off * update_bound(wanted, 1, OPTIONS),  # mean and root
        exp_avg + off * wanted.largest.exp_avg,
        exp_avg_sq + 2 * off * wanted.largest.exp_avg_sq,
    )


def _skipped_step(
    optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler, params: list[nn.Parameter]
) -> list[Figure]:
    """A step over an infinity: nothing is written, nothing waits, the scale is halved."""

    def written() -> list[Tensor]:
        states = (optimizer.state[param] for param in params)
        return [*params, *(torch.as_tensor(t) for state in states for t in state.values())]

    before = [tensor.detach().cpu().clone() for tensor in written()]
    grad = params[-1].grad
    if grad is None:
        raise AssertionError("step() dropped a gradient")
    grad[-1] = torch.inf
    torch.mps.synchronize()
    step: Any = optimizer.step

    def scaled() -> None:
        step(scaler=scaler, max_norm=MAX_NORM)

    if counters_available():
        counts = counted(scaled)
        waiting = [
            Figure("waits", counts["waits"], "==", 0),
            Figure("reads by the host", counts["host_reads"], "==", 0),
        ]
    else:
        waiting = [returns_while_busy(scaled)]
    scaler.update()
    changed = sum(
        int((now.detach().cpu() != then).sum()) for now, then in zip(written(), before, strict=True)
    )
    return [
        Figure("elements written by a step over an infinity", changed, "==", 0),
        *waiting,
        Figure("scale after it, of the scale before", scaler.get_scale() / 1024.0, "==", 0.5),
    ]
