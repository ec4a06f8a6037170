"""One memory, two processors: what the CPU can do with an `mps` tensor without copying it.

On Apple silicon the CPU and the GPU share their memory. PyTorch from 2.12 on allocates `mps`
tensors in Metal's Shared storage, which both can reach; older ones in Private storage, which only
the GPU can. docs/unified_memory.md says when to use this and when not to.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch._compile import _disable_dynamo  # torch.compiler.disable would import all of dynamo

from ._native import NO_METAL, C

__all__ = ["cpu_view", "cpu_views", "is_shared"]


def is_shared(tensor: torch.Tensor) -> bool:
    """Whether :func:`cpu_view` can view `tensor`: it is on mps, its buffer in Shared storage.

    It asks the buffer, not PyTorch's version. A storage of no bytes has no buffer and is shared.
    Nothing waits.

    Raises:
        TypeError: `tensor` is no plain strided tensor.
        RuntimeError: this build has no Metal operations (MPS_DS_BUILD=cpu).
    """
    _check(tensor)
    if tensor.device.type != "mps":
        return False
    buffer = tensor.untyped_storage().data_ptr()
    return buffer == 0 or C.storage_mode(buffer) == "shared"


@_disable_dynamo
def cpu_view(tensor: torch.Tensor, *, writes: bool = True) -> torch.Tensor:
    """A CPU tensor over the memory of an `mps` tensor; nothing is copied.

    It has the dtype, shape, strides and storage offset of `tensor`, its conjugate and negative
    bits, and no gradient: autograd follows nothing through it, as with ``tensor.detach()``.

    The call waits for all work that the GPU has been given, also for a fresh tensor: its memory
    may be a freed tensor's, with work pending that still writes there. From then on the rule is
    yours to keep, nothing enforces it:

    - **Until your last use of the view, no mps operation may touch the storage of `tensor`**, nor
      that of anything that shares it. Operations are only encoded when they are called; they run
      later, at any time. If both sides only read, both may.
    - What the CPU wrote before an mps operation is called is seen by that operation. To look again
      at what the GPU wrote since, take a new view (or wait: ``torch.mps.synchronize()``).

    The view owns the memory together with `tensor`: either may be dropped, in any order, or get
    other data (``tensor.data = ...``, ``tensor.set_()``), which the view then does not follow. So
    may what is made from the view (slices, ``.numpy()``).

    Args:
        tensor: a strided tensor on mps, of any dtype; with or without ``requires_grad``, a leaf or
            not. An empty one gives an empty one.
        writes: whether you are going to write through the view. Autograd cannot see that, so the
            version of `tensor` is bumped now: a backward that had saved it raises rather than
            computes with what you wrote. It does not see writes after a later operation saved
            `tensor` again: take a view for each time you write. With False nothing is bumped, and
            you must not write.

    Returns:
        The CPU tensor.

    Raises:
        TypeError: `tensor` is no tensor, not strided (sparse, nested), or of a class that has no
            storage of its own (DTensor, FakeTensor).
        ValueError: `tensor` is not on mps.
        RuntimeError: its buffer is not in Shared storage, so the CPU cannot reach it: use
            ``tensor.cpu()``, which copies (:func:`is_shared` asks beforehand); a kernel that was
            encoded earlier has failed; or this build has no Metal operations.
    """
    return cpu_views([tensor], writes=writes)[0]


@_disable_dynamo
def cpu_views(tensors: Sequence[torch.Tensor], *, writes: bool = True) -> list[torch.Tensor]:
    """As :func:`cpu_view` for each of `tensors`, with one wait for all; if one raises, no view."""
    for tensor in tensors:
        _check_shared(tensor)
    if tensors:
        torch.mps.synchronize()
        C.raise_failure()
    return [_view(tensor, writes) for tensor in tensors]


def _view(tensor: torch.Tensor, writes: bool) -> torch.Tensor:
    owner = tensor.detach()  # shares the storage, and keeps it whatever happens to `tensor`
    storage = owner.untyped_storage()
    if writes and not tensor.is_inference():
        torch.autograd.graph.increment_version(tensor)
    count = storage.nbytes() // tensor.element_size()
    if count == 0:
        whole = torch.empty(0, dtype=tensor.dtype)
    else:
        memory = C.SharedBytes(owner, storage.data_ptr(), storage.nbytes())
        whole = torch.frombuffer(memory, dtype=tensor.dtype, count=count)
    view = whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    if tensor.is_conj():
        view = view.conj()
    return torch._neg_view(view) if tensor.is_neg() else view


def _check_shared(tensor: torch.Tensor) -> None:
    _check(tensor)
    if tensor.device.type != "mps":
        raise ValueError(f"mps_ds: cpu_view takes a tensor on mps, got one on {tensor.device}")
    buffer = tensor.untyped_storage().data_ptr()
    if buffer and C.storage_mode(buffer) != "shared":
        raise RuntimeError(
            f"mps_ds: cpu_view: this tensor is in {C.storage_mode(buffer)} storage, which the CPU "
            f"cannot reach (PyTorch {torch.__version__}; 2.12 and newer allocate shared storage). "
            "Use tensor.cpu(), which copies."
        )


def _check(tensor: torch.Tensor) -> None:
    if not C.has_metal:
        raise RuntimeError(NO_METAL)
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"mps_ds: expected a torch.Tensor, got {type(tensor).__name__}")
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        raise TypeError(
            f"mps_ds: {type(tensor).__name__} stands for other tensors and has no memory of its "
            "own; take the view of its local tensor"
        )
    if tensor.layout is not torch.strided:
        raise TypeError(f"mps_ds: expected a strided tensor, got one with layout {tensor.layout}")
