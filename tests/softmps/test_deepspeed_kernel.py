"""DeepSpeed's own Metal FusedAdam through ``torch.mps.compile_shader``, called as it calls it.

Its source is fetched, not committed; where it cannot be, the test fails with pip's words.
"""

from __future__ import annotations

import pytest
import torch
from real_kernels.fetched import DEEPSPEED, fetch

import mps_ds.softmps as softmps

KERNELS = {
    torch.float32: "fused_adam_float",
    torch.float16: "fused_adam_half",
    torch.bfloat16: "fused_adam_bfloat",
}
LR, BETA1, BETA2, EPS, WEIGHT_DECAY = 1e-2, 0.9, 0.999, 1e-8, 0.1
STEPS = 5


def reference(param: torch.Tensor, grads: list[torch.Tensor], adam_w: bool) -> torch.Tensor:
    """Adam in float64, the states rounded to the type of the parameter after each step."""
    p, m, v = param.double(), torch.zeros_like(param).double(), torch.zeros_like(param).double()
    # The kernel computes 1 - beta2 from the float32 of beta2.
    beta1, beta2 = (torch.tensor(beta).double() for beta in (BETA1, BETA2))
    for step, grad in enumerate(grads, start=1):
        g = grad.double() if adam_w else grad.double() + WEIGHT_DECAY * p
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        update = m / (1 - BETA1**step) / ((v / (1 - BETA2**step)).sqrt() + EPS)
        p = p - LR * (update + (WEIGHT_DECAY * p if adam_w else 0))
        p, m, v = (x.to(param.dtype).double() for x in (p, m, v))
    return p


@pytest.mark.slow
@pytest.mark.parametrize("adam_w", [True, False])
@pytest.mark.parametrize("dtype", KERNELS)
def test_it_runs_and_is_adam(dtype: torch.dtype, adam_w: bool) -> None:
    (source,) = fetch(DEEPSPEED).rglob("fused_adam.metal")
    library = torch.mps.compile_shader(source.read_text())
    kernel = getattr(library, KERNELS[dtype])
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(1000, generator=generator).to(dtype)
    grads = [torch.randn(1000, generator=generator).to(dtype) for _ in range(STEPS)]
    param, on_mps = start.to("mps"), [grad.to("mps") for grad in grads]
    m, v = torch.zeros_like(param), torch.zeros_like(param)
    with softmps.count() as c:
        for step, grad in enumerate(on_mps, start=1):
            kernel(
                param, grad, m, v, LR, BETA1, BETA2, EPS, WEIGHT_DECAY,
                1 - BETA1**step, 1 - BETA2**step, int(adam_w), threads=param.numel(),
            )  # fmt: skip
    assert c.kernels[KERNELS[dtype]]["dispatches"] == c.dispatches == STEPS
    assert c.waits == c.commits == 0
    # A state that is rounded the other way (half a unit in the last place) moves an update by as
    # much, of LR at most times a few: the update is not larger than sqrt(STEPS) in magnitude.
    ulp = torch.finfo(dtype).eps
    expected = reference(start, grads, adam_w)
    assert (
        (param.cpu().double() - expected).abs() <= STEPS * ulp * (expected.abs() + 4 * LR)
    ).all()
