"""What a test can look at that a Mac does not show."""

from __future__ import annotations

from typing import Any, cast

import torch

from . import _C


def is_active() -> bool:
    """Whether ``mps`` is the software device in this process. True once this module is imported."""
    return torch.backends.mps.is_available()


def counters() -> dict[str, Any]:
    """Everything counted since the last :func:`reset_counters`. :func:`count` tells of a part.

    On the device: ``dispatches``, ``threadgroups``, ``threads``, ``encoders``, ``command_buffers``
    (created), ``declared`` (distinct resources of each encoder), ``use_resource_calls``,
    ``bytes_set``, and the first four with ``declared`` for each kernel name in ``kernels``.

    Of the program: ``commits``, ``waits`` (a synchronisation that the program asked for, or that a
    copy between host and device or a read of a value needs on a Mac), ``host_reads`` (device to
    host: ``.item()``, ``.cpu()``, operators whose result has a size that depends on data) and
    ``host_writes``.

    Of the stand-in: ``fallback_ops`` (operators that ran on the CPU) with the ``fallback_commits``
    and ``fallback_waits`` that only they, or :func:`host_view`, needed. A Mac makes none of these.
    """
    return cast("dict[str, Any]", _C.counters())


def pending() -> bool:
    """Whether work was encoded or committed that nobody has waited for."""
    return cast(bool, _C.pending())


def host_view(tensor: torch.Tensor, wait: bool = True) -> torch.Tensor:
    """A CPU tensor over the memory of ``tensor`` (on mps), of the same shape and strides; no copy.

    An instrument: unlike what a program gets from ``[buffer contents]``, its accesses are never
    found to come too early, and its wait is not the program's.

    Args:
        tensor: a tensor on mps.
        wait: wait for the stream first. With False the view shows what the memory holds right now.

    Raises:
        RuntimeError: if ``tensor`` is not on mps, or a kernel failed before the wait.
    """
    return cast(torch.Tensor, _C.host_view(tensor, wait))


def buffer_info(tensor: torch.Tensor) -> dict[str, int]:
    """The Metal buffer of ``tensor``'s storage: ``buffer`` (the object's address), ``contents``,
    ``gpu_address`` and ``length`` in bytes; all 0 for an empty storage.
    """
    return cast("dict[str, int]", _C.buffer_info(tensor))
