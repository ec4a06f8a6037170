"""Exact norms, tensors to take them of, and what softmetal lets a test vary."""

import math
import sys

import numpy as np
import pytest
import torch

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
# Blocks of 4 and 8, one for each of 256 threads, chunks: csrc/mps/kernels/norm_tables.h.
BOUNDARIES = [*range(131), 1023, 1024, 1025, 2047, 2048, 2049, 8191, 8192, 8193, 16385, 70001]
TINY = 2.0**-126  # what a GPU that flushes subnormals loses

on_softmetal = pytest.mark.skipif(
    sys.platform == "darwin" or not torch.backends.mps.is_available(),
    reason="an instrument of the software device",
)


def values(shape, dtype=torch.float32, seed=0) -> torch.Tensor:
    """Normally distributed values on the CPU."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype)


def exact(tensors, norm_type=2.0) -> float:
    """The norm in float64, where no square of a float32 overflows or vanishes."""
    arrays = [t.detach().cpu().double().numpy().ravel() for t in tensors]
    if norm_type == math.inf:
        return max((float(np.abs(a).max()) for a in arrays if a.size), default=0.0)
    return math.sqrt(math.fsum(float(np.square(a).sum()) for a in arrays))


def ulps(got: torch.Tensor, wanted: float) -> float:
    """The distance in units in the last place of the wanted value's float32."""
    if wanted > float(np.finfo(np.float32).max):
        return 0.0 if got.item() == math.inf else math.inf
    unit = float(np.spacing(np.float32(wanted)))
    return max(0.0, abs(got.item() - wanted) - (TINY if wanted < 2 * TINY else 0.0)) / unit


def bits(tensor: torch.Tensor) -> list[int]:
    """The bits of a tensor's elements, in logical order."""
    integer = torch.int32 if tensor.element_size() == 4 else torch.int16
    return tensor.detach().cpu().contiguous().view(integer).flatten().tolist()
