"""The operations, as functions on lists of tensors: the entry for training code.

They run where their tensors are: as Metal kernels on `mps`, on the CPU for `cpu` tensors. None of
them waits for the GPU or reads anything back from it.
"""

from .. import _needs_torch as _needs_torch
from .adam import adam_

__all__ = ["adam_"]
