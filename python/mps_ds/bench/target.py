"""Where a comparison runs, and how much memory it may take there."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from dataclasses import dataclass

import torch

SHARE_OF_MEMORY = 0.5
"""Of what Metal recommends at most: the rest is the system's and that of what else runs."""
SHARE_OF_HOST_MEMORY = 0.25
"""Of the whole machine's memory, for comparisons on the CPU: nobody recommends a limit there."""


def _nothing() -> None:
    """The CPU has finished when a call returns."""


@dataclass(frozen=True)
class Target:
    """A device: `mps` (a real one, or the software one, which counts) or `cpu`."""

    device: str
    budget: int
    """Bytes that a comparison may have allocated at any time."""
    counts: bool = False
    """It is the software device: counts and bytes instead of times."""
    synchronize: Callable[[], object] = _nothing
    empty_cache: Callable[[], object] = _nothing

    def free(self) -> None:
        """Give back what the last comparison has dropped."""
        gc.collect()
        self.synchronize()
        self.empty_cache()


def mps(software: bool) -> Target:
    """The `mps` device, half of its recommended memory."""
    return Target(
        "mps",
        int(torch.mps.recommended_max_memory() * SHARE_OF_MEMORY),
        software,
        torch.mps.synchronize,
        torch.mps.empty_cache,
    )


def cpu() -> Target:
    """The processor, a quarter of the machine's memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Target("cpu", int(memory * SHARE_OF_HOST_MEMORY))
