"""The most memory that is allocated on `mps` at the end of any operator."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Peak(TorchDispatchMode):
    """Sees what a sequence of operators keeps, and the results that one of them makes."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.bytes = max(self.bytes, torch.mps.current_allocated_memory())
        return result
