"""What the software device counts of a call: its times say nothing about any Mac."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .cases import Work


@dataclass(frozen=True)
class Counts:
    """One call.

    Attributes:
        dispatches: of Metal kernels.
        operators: calls of PyTorch's operators that compute or copy. Each is a dispatch or more on
            a Mac, where the software device runs it on the CPU.
        declared: buffers declared to Metal; one that two encoders declare counts twice.
        commits: of command buffers, by the program.
        waits: for the device.
        host_reads: of values, from the device.
        bytes: read and written: by kernels of tensors, each access; of tables, each byte once; and
            by operators, each tensor once.
    """

    dispatches: int
    operators: int
    declared: int
    commits: int
    waits: int
    host_reads: int
    bytes: int


def count(work: Work) -> Counts:
    """Of the third call: the first makes states and tables, the second may replace them."""
    from mps_ds import softmetal, softmps

    for _ in range(2):
        work()
    torch.mps.synchronize()
    declared = softmps.counters()["declared"]
    with softmps.count() as counted:
        work()
    declared = softmps.counters()["declared"] - declared
    kernels = counted.kernels.values()
    moved = counted.bytes_in + counted.bytes_out
    if kernels:
        with softmetal.tracing() as trace:
            work()
        for kernel in trace.kernels.values():
            moved += kernel.declared.bytes + kernel.bound.distinct
    return Counts(
        sum(kernel["dispatches"] for kernel in kernels),
        sum(operator.calls for operator in counted.ops.values()),
        declared,
        counted.commits,
        counted.waits,
        counted.host_reads,
        moved,
    )
