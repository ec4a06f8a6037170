"""Host memory, which DeepSpeed pins: page-locked, so that another device can reach it."""

from __future__ import annotations

from typing import Any

import torch


class HostMemory:
    """The part of an accelerator that pins, for a GPU that reaches all memory as it is.

    Nothing is page-locked, nothing is counted as such, and nothing is built for it: DeepSpeed's own
    methods would build an operation where ``DS_PIN_MEMORY_BACKEND=native``.
    """

    def pin_memory(
        self, tensor: torch.Tensor, make_copy: bool = True, match_shape: bool = True
    ) -> torch.Tensor:
        """The tensor itself; without `make_copy` a new one, flat if it need not match its shape."""
        if make_copy:
            return tensor
        return tensor.new_empty(tensor.shape if match_shape else (tensor.numel(),))

    def pin_empty(
        self, *size: Any, dtype: torch.dtype, device: str | torch.device = "cpu"
    ) -> torch.Tensor:
        """A new tensor on the host; ValueError for another device, as DeepSpeed's own."""
        _require_host(device)
        one = len(size) == 1 and isinstance(size[0], (tuple, list))  # torch.Size is a tuple
        return torch.empty(size[0] if one else size, dtype=dtype, device=device)

    def pin_empty_like(
        self,
        tensor: torch.Tensor,
        device: str | torch.device = "cpu",
        dtype: torch.dtype | None = None,
    ) -> torch.Tensor:
        """A new tensor of that shape on the host; ValueError for another device."""
        return self.pin_empty(tensor.shape, dtype=dtype or tensor.dtype, device=device)

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        """As torch says: DeepSpeed passes the answer on to torch's `pin_memory` argument."""
        return tensor.is_pinned()

    def unpin_memory(self, tensor: torch.Tensor) -> None:
        """Nothing."""


def _require_host(device: str | torch.device) -> None:
    if torch.device(device).type != "cpu":
        raise ValueError(f"mps_ds: {device} has no memory of the host; accepted is cpu")
