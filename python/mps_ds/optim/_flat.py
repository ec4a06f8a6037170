"""Optimizer states as views of few large buffers.

A dispatch declares every buffer that it touches; with a buffer for each state of each param, the
declarations would cost more than the kernel's launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

_ALIGNMENT = 32  # elements; 128 bytes, a cache line of Apple's GPUs
_LARGEST = (
    1 << 28
)  # elements; 1 GiB of float32: far below Metal's limit, and a piece that the allocator finds


def _strides_like(param: Tensor) -> tuple[int, ...]:
    """Strides of a dense tensor laid out as `param` is, as far as it is dense itself."""
    if param.is_contiguous():
        return param.stride()
    meta = torch.empty_strided(param.shape, param.stride(), device="meta")
    return torch.empty_like(meta, memory_format=torch.preserve_format).stride()


def _packs(params: Sequence[Tensor]) -> Iterator[tuple[int, list[tuple[Tensor, int]]]]:
    """Split `params` into buffers: (elements, [(param, first element)])."""
    pack: list[tuple[Tensor, int]] = []
    total = 0
    for param in params:
        size = -(-param.numel() // _ALIGNMENT) * _ALIGNMENT
        if pack and total + size > _LARGEST:
            yield total, pack
            pack, total = [], 0
        pack.append((param, total))
        total += size
    if pack:
        yield total, pack


def zeros_like_each(params: Sequence[Tensor], dtypes: Sequence[torch.dtype]) -> list[Tensor]:
    """Zeros of the shape and layout of each of `params`, as views of few buffers.

    Args:
        params: tensors of one device.
        dtypes: of each view.
    """
    states: dict[int, Tensor] = {}
    for dtype in dict.fromkeys(dtypes):
        members = [i for i, wanted in enumerate(dtypes) if wanted == dtype]
        first = 0
        for total, pack in _packs([params[i] for i in members]):
            buffer = torch.zeros(total, dtype=dtype, device=params[0].device)
            for i, (param, at) in zip(members[first:], pack, strict=False):
                states[i] = buffer.as_strided(param.shape, _strides_like(param), at)
            first += len(pack)
    return [states[i] for i in range(len(params))]


def step_counts(counts: Sequence[int], device: torch.device) -> list[Tensor]:
    """Step counts as float32 tensors without dimensions, views of one buffer on `device`."""
    return list(torch.tensor(counts, dtype=torch.float32).to(device).unbind())
