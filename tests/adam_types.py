"""Adam over all storage types: arrays of each, and how far a step may be from float64.

Rows of float32 params are calculated in pairs of floats (tests/adam_reference.py has their bound),
rows of 16-bit params in plain fp32, whose bound is derived here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from adam_reference import HALF_ULP, Options, Values, adam

FLOAT32, FLOAT16, BFLOAT16 = torch.float32, torch.float16, torch.bfloat16
TYPES = (FLOAT32, FLOAT16, BFLOAT16)

# params, grads, states
COMBINATIONS = [
    (param, grad, state)
    for param in TYPES
    for grad in TYPES
    for state in dict.fromkeys((FLOAT32, param))
]


def combination_id(combination) -> str:
    return "-".join(str(dtype).removeprefix("torch.") for dtype in combination)


@dataclass
class Row:
    """The tensors of one param."""

    param: torch.Tensor
    grad: torch.Tensor
    exp_avg: torch.Tensor
    exp_avg_sq: torch.Tensor
    extra: dict[str, torch.Tensor] = field(default_factory=dict)

    def copy(self, device=None) -> Row:
        def moved(t):
            return t.detach().to(device or t.device, copy=True)

        return Row(
            *map(moved, (self.param, self.grad, self.exp_avg, self.exp_avg_sq)),
            {name: moved(t) for name, t in self.extra.items()},
        )

    def written(self) -> list[torch.Tensor]:
        return [self.param, self.exp_avg, self.exp_avg_sq, *self.extra.values()]


def row(shape, combination, device, seed: int = 0, **extra: torch.dtype) -> Row:
    """Random tensors; `extra` names more of them (max_exp_avg_sq, copy) and their dtypes."""
    rng = np.random.default_rng(seed)
    param_type, grad_type, state_type = combination

    def make(values, dtype):
        return torch.tensor(np.asarray(values, np.float32), dtype=dtype, device=device)

    return Row(
        make(rng.standard_normal(shape), param_type),
        make(rng.standard_normal(shape), grad_type),
        make(0.1 * rng.standard_normal(shape), state_type),
        make(0.01 * rng.random(shape), state_type),
        {name: make(0.02 * rng.random(shape), dtype) for name, dtype in extra.items()},
    )


def float64(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().double().numpy()


def bits(tensor: torch.Tensor) -> np.ndarray:
    dense = tensor.detach().cpu().contiguous()
    return dense.view(torch.int32 if dense.dtype == FLOAT32 else torch.int16).numpy()


def ulp(x: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """The spacing of numbers of `dtype` at |x|."""
    digits, lowest = {FLOAT32: (24, -126), FLOAT16: (11, -14), BFLOAT16: (8, -126)}[dtype]
    exponent = np.frexp(np.maximum(np.abs(x), 2.0**lowest))[1] - 1
    return 2.0 ** (np.maximum(exponent, lowest) - digits + 1)


def assert_step(after: Row, before: Row, step: int, options: Options, factor: float = 1.0) -> dict:
    """Every value within its bound of the float64 step. Returns the worst errors in ulp.

    `factor` multiplies the gradient. Without amsgrad.
    """
    values = Values(*map(float64, (before.param, before.exp_avg, before.exp_avg_sq)))
    want = adam(values, factor * float64(before.grad), step, options)
    exact = before.param.dtype == FLOAT32
    allowed = want.allowed if exact else _plain_allowed(want, options)
    tensors = Values(after.param, after.exp_avg, after.exp_avg_sq)
    worst = {}
    for name, tensor, value, bound in zip(
        Values._fields, tensors, want.values, allowed, strict=True
    ):
        spacing = ulp(value, tensor.dtype)
        # `bound` includes one rounding to float32; a 16-bit store rounds once more.
        limit = bound if tensor.dtype == FLOAT32 else bound + 0.5 * spacing
        error = np.abs(float64(tensor) - value)
        bad = ~(error <= limit)
        assert not bad.any(), (name, np.argmax(bad), (error / limit).max(), (error / spacing).max())
        worst[name] = float((error / spacing).max(initial=0.0))
    return worst


def _plain_allowed(want, options: Options) -> Values:
    """Each constant and each operation is off by half an ulp of what it gives."""
    largest = want.largest
    mean = 5 * HALF_ULP * largest.exp_avg  # 2 constants, the gradient's factor, product, fma
    square = 8 * HALF_ULP * largest.exp_avg_sq  # the gradient twice
    # Update: the mean's error as it is; half of the square's (root); 6 constants and operations of
    # the denominator, the quotient, the step size; then decay and the last fma.
    update = np.abs(want.largest.param)
    root = 0.5 * square / np.maximum(want.values.exp_avg_sq, 2.0**-126)
    param = update * ((5 + 6 + 2 + 3) * HALF_ULP + root)
    floor = 2.0**-126
    return Values(param + floor, mean + floor, square + floor)
