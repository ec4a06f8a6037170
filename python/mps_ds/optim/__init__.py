"""Optimizers made of the native operations; drop-in for those of `torch.optim`."""

from .fused_adam import FusedAdam

__all__ = ["FusedAdam"]
