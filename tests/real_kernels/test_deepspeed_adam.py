"""DeepSpeed's Metal FusedAdam, the file as it is, against the same arithmetic in numpy."""

import numpy as np
import pytest
import torch
from real_kernels.kernels import DTYPES, FLOATS

SIZE = 10007
BETA1, BETA2, EPS, DECAY, STEP = 0.9, 0.999, 1e-8, 0.01, 3


def adam(p, g, m, v, mode: int):
    """One step in float32, each operation rounded, in the order of DeepSpeed's source."""
    one = np.float32(1)
    lr, beta1, beta2, eps, decay, c1, c2 = hyper()
    if mode == 0:
        g = g + decay * p
    m = beta1 * m + (one - beta1) * g
    v = beta2 * v + (one - beta2) * g * g
    update = (m / c1) / (np.sqrt(v / c2) + eps)
    if mode == 1:
        update = update + decay * p
    return p - lr * update, m, v


def hyper() -> list[np.float32]:
    """lr, both betas, eps, weight decay and both bias corrections."""
    values = [1e-3, BETA1, BETA2, EPS, DECAY, 1 - BETA1**STEP, 1 - BETA2**STEP]
    return [np.float32(value) for value in values]


@pytest.mark.parametrize("mode", [0, 1], ids=["Adam", "AdamW"])
@pytest.mark.parametrize("t", FLOATS)
def test_equals_numpy_bit_for_bit(fused_adam, t, mode):
    """Nothing is contracted on the software device, so every rounding is the same."""
    p, g, m = (torch.randn(SIZE).to(DTYPES[t]) for _ in range(3))
    v = torch.rand(SIZE).to(DTYPES[t])
    floats = [x.float().numpy() for x in (p, g, m, v)]
    expected = [torch.from_numpy(x).to(DTYPES[t]) for x in adam(*floats, mode)]
    fused_adam(f"fused_adam_{t}", [p, g, m, v, *hyper(), np.uint32(mode)], SIZE, 256)
    for result, wanted, name in zip(
        (p, m, v), expected, ("param", "exp_avg", "exp_avg_sq"), strict=True
    ):
        assert torch.equal(result, wanted), name
