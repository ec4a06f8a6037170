"""A model whose gradients are known exactly, and how far two Adams may be apart on it.

The loss is linear in the params, so gradients depend on the batches alone; batches are small
integers and all means powers of two, so that gradients are exact in float16 and bfloat16, too. So
params after training with any precision can be held to those of float32, on any device.

Every gradient lies within a factor of 3 of every other; divided by the norm of its batch, within
R = 9. How far apart two float32 Adams may be after a step (u = 2^-24, G the largest gradient):

- a relative error d of the clip coefficient: a norm of n elements, summed in any order, and three
  roundings more: d <= (n + 4) u; 0 without clipping, and for clipping by value;
- the first mean: d G, and at most 2 u G a step, of which ten count (beta1 is 0.9), by 1 / (1 - 0.9)
  in the first one: d G + 200 u G. The root of the second: relative d + 3 u a step + 5 u;
- the update |m| / root(v) <= R: R times both, R (2 d + 250 u) for up to 15 steps;
- the param itself, of up to 2: three roundings, 6 u.

The bound is for two that err both ways: twice the sum, over the steps.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

FEATURES, OUTPUTS, BATCH = 7, 8, 4
ELEMENTS = FEATURES * OUTPUTS + OUTPUTS
LR = 1e-2
U = 2.0**-24
R = 9
STEPS = 6  # of most tests
# Below all norms, and between the smallest and the largest gradient.
CLIPS: dict[str, dict[str, Any]] = {
    "no clipping": {},
    "norm": {"gradient_clip_val": 0.5},
    "value": {"gradient_clip_val": 0.25, "gradient_clip_algorithm": "value"},
}
# Half an ulp of what autocast rounds params and results to.
UNITS = {"32-true": 2.0**-24, "16-mixed": 2.0**-11, "bf16-mixed": 2.0**-8}
SIGNS = torch.tensor([1.0, -1.0] * (OUTPUTS // 2))


def batches(steps: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    x = torch.randint(1, 4, (steps * BATCH, FEATURES), generator=generator).float()
    return x


def loader(steps: int) -> torch.utils.data.DataLoader[Any]:
    return torch.utils.data.DataLoader(batches(steps), batch_size=BATCH)  # type: ignore[arg-type]


def model() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(FEATURES, OUTPUTS)


def loss_of(layer: nn.Module, x: Tensor) -> Tensor:
    """Gradients of a power of two times small integers; see the module's text."""
    return (layer(x).float() * SIGNS.to(x.device)).mean()


def param_bound(steps: int, clips_norm: bool) -> float:
    d = (ELEMENTS + 4) * U if clips_norm else 0.0
    return 2 * steps * (LR * R * (2 * d + 250 * U) + 6 * U)


def loss_bound(steps: int, clips_norm: bool, unit: float) -> float:
    """Of the loss: inputs of up to 3, eight terms; params and results rounded to `unit`."""
    terms = 3 * FEATURES + 1
    return terms * (param_bound(steps, clips_norm) + 2 * unit * 2) + 10 * U * terms


def params_of(module: nn.Module) -> list[Tensor]:
    return [p.detach().cpu().float() for p in module.parameters()]


def largest_difference(some: list[Tensor], others: list[Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(some, others, strict=True))


def assert_same(some: list[Tensor], others: list[Tensor]) -> None:
    """Bit for bit."""
    assert all(torch.equal(a, b) for a, b in zip(some, others, strict=True))
