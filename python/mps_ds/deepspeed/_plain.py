"""What the kernels take: dense tensors of three types. The rest is PyTorch's."""

from __future__ import annotations

import torch

_DTYPES = frozenset({torch.float32, torch.float16, torch.bfloat16})


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether the kernels take it: neither sparse nor float64."""
    return tensor.layout is torch.strided and tensor.dtype in _DTYPES
