"""The operations, as functions on lists of tensors: the entry for training code.

They run where their tensors are: as Metal kernels on `mps`, on the CPU for `cpu` tensors. None of
them waits for the GPU or reads anything back from it.
"""

from .. import _needs_torch as _needs_torch
from .adam import adam_, multi_tensor_adam
from .clip import clip_grad_norm_
from .norms import multi_tensor_l2norm, multi_tensor_non_finite, norm_and_non_finite
from .scaling import multi_tensor_axpby, multi_tensor_scale, multi_tensor_unscale_

__all__ = [
    "adam_",
    "clip_grad_norm_",
    "multi_tensor_adam",
    "multi_tensor_axpby",
    "multi_tensor_l2norm",
    "multi_tensor_non_finite",
    "multi_tensor_scale",
    "multi_tensor_unscale_",
    "norm_and_non_finite",
]
