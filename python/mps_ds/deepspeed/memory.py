"""What PyTorch's MPS backend does not keep: the peak of its memory figures."""

from __future__ import annotations

import torch


class PeakMemory:
    """The highest memory figures among those that anybody has asked for since the last reset.

    MPS has no peak counter, so a peak between two questions is not seen. DeepSpeed asks at each of
    its memory reports, and the accelerator when it empties the cache, synchronises or is asked.
    """

    def __init__(self) -> None:
        self._allocated = 0
        self._reserved = 0

    def look(self) -> tuple[int, int]:
        """The figures of now, in bytes: allocated by tensors, held from the system."""
        allocated = torch.mps.current_allocated_memory()
        reserved = torch.mps.driver_allocated_memory()
        self._allocated = max(self._allocated, allocated)
        self._reserved = max(self._reserved, reserved)
        return allocated, reserved

    def allocated(self) -> int:
        """The peak of what tensors hold, in bytes."""
        self.look()
        return self._allocated

    def reserved(self) -> int:
        """The peak of what is held from the system, in bytes."""
        self.look()
        return self._reserved

    def reset_allocated(self) -> None:
        """Start again from what is allocated now."""
        self._allocated = torch.mps.current_allocated_memory()

    def reset_reserved(self) -> None:
        """Start again from what is held now."""
        self._reserved = torch.mps.driver_allocated_memory()
