"""What reaches the GPU: one dispatch for any number of tensors, and nothing that waits.

The software device counts; a Mac's GPU does not tell, so there the results are checked, and that a
step returns while the GPU is still busy with work that was queued before it.
"""

import sys
from collections.abc import Callable
from typing import Any

import torch

from mps_ds.selftest.checks.numerics import OPTIONS, Lists, error_figure, random_four
from mps_ds.selftest.report import Figure

TENSORS = 2_000


def counters_available() -> bool:
    """Whether `mps` is the software device, which counts."""
    module = sys.modules.get("mps_ds.softmps")
    return bool(module and module.is_active())


def counted(work: Callable[[], object]) -> dict[str, Any]:
    """The software device's counters over one call of `work`."""
    from mps_ds import softmps

    softmps.reset_counters()
    work()
    return dict(softmps.counters())


def one_dispatch() -> list[Figure]:
    """A list of 2,000 tensors of 1 to 9 elements: the worst case for one launch per tensor."""
    lists = Lists()
    for seed in range(TENSORS):
        lists.add(*random_four((1 + seed % 9,), seed))
    torch.mps.synchronize()
    if not counters_available():
        worst = lists.step_error(2, OPTIONS["AdamW"])
        return [error_figure(f"{TENSORS:,} tensors (not counted here)", worst)]
    counts = counted(lambda: lists.step(2, OPTIONS["AdamW"]))
    worst = lists.error(2, OPTIONS["AdamW"])
    return [
        error_figure(f"{TENSORS:,} tensors", worst),
        *count_figures(counts, dispatches=1),
    ]


def count_figures(counts: dict[str, Any], dispatches: int) -> list[Figure]:
    """One dispatch in one encoder; no commit, no wait, no copy to the host."""
    launched = sum(kernel["dispatches"] for kernel in counts["kernels"].values())
    return [
        Figure("dispatches", launched, "==", dispatches),
        Figure("encoders", counts["encoders"], "==", dispatches),
        Figure("commits", counts["commits"], "==", 0),
        Figure("waits", counts["waits"], "==", 0),
        Figure("reads by the host", counts["host_reads"], "==", 0),
    ]


def no_sync() -> list[Figure]:
    """FusedAdam.step() queues work and returns."""
    from mps_ds.optim import FusedAdam

    params = [torch.nn.Parameter(torch.ones(33, device="mps")) for _ in range(20)]
    optimizer = FusedAdam(params, lr=1e-3)
    for param in params:
        param.grad = torch.ones_like(param)
    optimizer.step()  # the first step makes the states and compiles
    torch.mps.synchronize()
    if counters_available():
        return count_figures(counted(optimizer.step), dispatches=1)
    return [returns_while_busy(optimizer.step)]


def returns_while_busy(step: Callable[[], object]) -> Figure:
    """Whether work queued before the step is still unfinished when it returns: never, if it waits.

    Work that is done before the step begins tells nothing, so more is queued until it is not.
    """
    matrix = torch.randn(2048, 2048, device="mps")
    for products in (20, 100, 500, 2500):
        torch.mps.synchronize()
        for _ in range(products):
            torch.mm(matrix, matrix)
        queued = torch.mps.Event()
        queued.record()
        if not queued.query():
            step()
            return Figure("steps that waited for the GPU", int(queued.query()), "==", 0)
    raise RuntimeError("2,500 matrix products finished before they could be waited for")
