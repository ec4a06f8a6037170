"""PyTorch's ``mps`` device on a machine without one: a software stand-in, for tests.

Importing this module activates it for the process, before or after ``import torch``::

    import mps_ds.softmps
    torch.zeros(3, device="mps")

With ``MPS_DS_SOFT=1`` in the environment every Python process does so by itself. It proves that a
program is correct, never how fast it is: operators run on the CPU, Metal kernels on a software
Metal device. Nothing runs before a commit, as on a Mac. third_party/softmps/README.md says what it
refuses.
"""

from __future__ import annotations

from .._environment import is_on
from ._activate import load_extension

_C = load_extension()

from ._counting import Count, OpCount, count, reset_counters  # noqa: E402
from ._instruments import (  # noqa: E402
    buffer_info,
    counters,
    host_view,
    is_active,
    pending,
)
from ._torch_patches import name_the_processor, patch_torch  # noqa: E402

patch_torch(_C)
if is_on("MPS_DS_SOFT"):
    name_the_processor()

__all__ = [
    "Count",
    "OpCount",
    "buffer_info",
    "count",
    "counters",
    "host_view",
    "is_active",
    "pending",
    "reset_counters",
]
