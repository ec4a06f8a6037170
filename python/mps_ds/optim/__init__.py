"""Optimizers made of the native operations; drop-in for those of `torch.optim`."""

from .. import _needs_torch as _needs_torch
from .cpu_adam import CPUAdam
from .fused_adam import FusedAdam

__all__ = ["CPUAdam", "FusedAdam"]
