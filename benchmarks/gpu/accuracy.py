"""Results against float64, by the bounds of the project's tests; and DeepSpeed's beside them."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import torch
from launch import Source
from models import State
from msl_to_cuda import ROOT
from peers import deepspeed_cuda, deepspeed_folder, deepspeed_metal
from steps import Adam, AdamTypes, Norm, adam_source
from tables import Options


def _tests() -> Any:
    """tests/adam_types.py. The package needs its native library; its float64 step does not."""
    for name in ("mps_ds", "mps_ds.selftest"):
        if name not in sys.modules:
            package = ModuleType(name)
            package.__path__ = [str(ROOT / "python" / name.replace(".", "/"))]
            sys.modules[name] = package
    sys.path.append(str(ROOT / "tests"))
    import adam_types

    return adam_types


SIZE = (1021, 1031)  # a tail of every kind
STEPS = (1, 1000)
VALUES = ("param", "exp_avg", "exp_avg_sq")
DECAYS = (Options(adam_w_mode=True), Options(adam_w_mode=False))


def sources() -> list[Source]:
    """The kernels of all combinations of types."""
    return [adam_source(AdamTypes(*combination)) for combination in _tests().COMBINATIONS]


def check_adam() -> dict[str, dict[str, float]]:
    """Every combination of types within its bound; returns the worst errors in ulp."""
    types = _tests()
    worst: dict[str, dict[str, float]] = {}
    for k, combination in enumerate(types.COMBINATIONS):
        for options in DECAYS:
            for step in STEPS:
                before = types.row(SIZE, combination, "cuda", seed=100 * k + step)
                after = before.copy()
                lists = ([after.param], [after.exp_avg], [after.exp_avg_sq])
                adam = Adam(*lists, None, combination[1])
                adam.step([after.grad], options, step)()
                reference = types.Options(**vars(options))
                errors = types.assert_step(after, before, step, reference)
                name = f"{types.combination_id(combination)} {_mode(options)} step {step}"
                worst[name] = errors
    return worst


def _mode(options: Options) -> str:
    return "AdamW" if options.adam_w_mode else "Adam"


def check_not_finite() -> None:
    """What is not finite stays in its element, as in a step without any; zeros stay zeros."""
    values = torch.tensor([1.0, 0.0, float("inf"), -float("inf"), float("nan"), 3e38, 1e-45, -0.0])
    grid = torch.cartesian_prod(values, values, values, values.abs()).cuda()
    whole = [grid[:, k].contiguous() for k in range(4)]
    odd = [torch.cat([x.new_zeros(1), x])[1:] for x in whole]  # not aligned: the guarded path
    for param, grad, exp_avg, exp_avg_sq in (whole, odd):
        Adam([param], [exp_avg], [exp_avg_sq]).step([grad], Options(), 3)()
    torch.cuda.synchronize()
    for one, other in zip(whole, odd, strict=True):
        same = (one.view(torch.int32) == other.view(torch.int32)) | (one.isnan() & other.isnan())
        assert bool(same.all()), "the fast path differs from the guarded one"


def check_norms() -> dict[str, float]:
    """L2 norms within 2 ulp of float64, also where squares overflow or vanish; found_inf."""
    worst = {}
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for scale in (1.0,) if dtype == torch.float16 else (1.0, 1e20, 1e-30):
            tensors = [
                torch.randn(n, device="cuda").mul_(scale).to(dtype) for n in (1, 7, 8192, 3_000_001)
            ]
            norm = Norm(tensors)
            norm()
            exact = torch.cat([t.double() for t in tensors]).norm().item()
            error = abs(norm.total.item() - exact) / float(np.spacing(np.float32(exact)))
            assert error <= 2, (dtype, scale, error)
            assert norm.found_inf.item() == 0, (dtype, scale)
            worst[f"{dtype} {scale}"] = error
            for bad in (float("inf"), float("nan")):
                tensors[-1][-1] = bad
                norm()
                assert norm.found_inf.item() == 1, (dtype, scale, bad)
    return worst


# ---- beside DeepSpeed ----


def _float64_step(before: State, options: Options, step: int, own_constants: bool) -> dict:
    """Each value, and the largest of it and of the terms that it was summed from.

    `own_constants`: with DeepSpeed's, which are rounded to fp32, and 1 - beta formed from them.
    """
    o = options
    param, grad, m, v = (
        tensors[0].double()
        for tensors in (before.params, before.grads, before.exp_avgs, before.exp_avg_sqs)
    )
    numbers = (o.lr, o.beta1, o.beta2, o.eps, o.weight_decay)
    lr, beta1, beta2, eps, decay = numbers
    rest1, rest2 = 1 - beta1, 1 - beta2
    correction1, correction2 = 1 - beta1**step, 1 - beta2**step
    if own_constants:
        lr, beta1, beta2, eps, decay = (float(np.float32(x)) for x in numbers)
        rest1, rest2 = (float(np.float32(1) - np.float32(x)) for x in (beta1, beta2))
        correction1, correction2 = (
            float(np.float32(1 - np.power(float(np.float32(x)), step))) for x in (beta1, beta2)
        )
    if not o.adam_w_mode:
        grad = grad + decay * param
    largest = torch.maximum((beta1 * m).abs(), (rest1 * grad).abs())
    m = beta1 * m + rest1 * grad
    v = beta2 * v + rest2 * grad * grad
    factor = lr / correction1 / ((v / correction2).sqrt() + eps)
    kept = param * (1 - lr * decay) if o.adam_w_mode else param
    values = (kept - factor * m, m, v)
    terms = (torch.maximum(kept.abs(), factor * largest), largest, v)
    return {
        name: (value, torch.maximum(value.abs(), term))
        for name, value, term in zip(VALUES, values, terms, strict=True)
    }


def _ulp(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    digits = {torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}[dtype]
    least = torch.finfo(dtype).smallest_normal
    exponent = torch.frexp(x.abs().clamp(min=least))[1]
    return torch.ldexp(torch.ones_like(x), exponent - digits)


def compare_with_deepspeed(numel: int = 1 << 22) -> list[dict]:
    """Errors of each value, ours and theirs, of one step; in ulp of its largest term.

    Where terms cancel, the value's own ulp says how far they cancelled, not how well it was done.
    """
    rows = []
    runs = {"ours": _ours, "DeepSpeed CUDA": deepspeed_cuda, "DeepSpeed Metal": deepspeed_metal}
    if not deepspeed_folder():
        runs = {"ours": _ours}
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for options in DECAYS:
            for step in (1, 10, 1000):
                for who, run in runs.items():
                    state = State([(numel,)], dtype, dtype, dtype, seed=step)
                    exact = _float64_step(state, options, step, False)
                    theirs = _float64_step(state, options, step, True)
                    run(state, options, step)()
                    torch.cuda.synchronize()
                    lists = (state.params, state.exp_avgs, state.exp_avg_sqs)
                    for name, tensors in zip(VALUES, lists, strict=True):
                        got, (want, largest) = tensors[0].double(), exact[name]
                        spacing = _ulp(largest, dtype)
                        error = (got - want).abs() / spacing
                        own = (got - theirs[name][0]).abs() / spacing
                        rows.append(
                            {
                                "type": str(dtype).removeprefix("torch."),
                                "mode": _mode(options),
                                "step": step,
                                "value": name,
                                "who": who,
                                "max": error.max().item(),
                                "mean": error.mean().item(),
                                "max with DeepSpeed's constants": own.max().item(),
                            }
                        )
    return rows


def _ours(state: State, options: Options, step: int) -> Any:
    lists = (state.params, state.exp_avgs, state.exp_avg_sqs)
    adam = Adam(*lists, None, state.grads[0].dtype)
    return adam.step(state.grads, replace(options), step)
