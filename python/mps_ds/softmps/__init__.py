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

from ._activate import load_extension

_C = load_extension()

from ._instruments import (  # noqa: E402
    buffer_info,
    counters,
    host_view,
    is_active,
    pending,
    reset_counters,
)
from ._torch_patches import patch_torch  # noqa: E402

patch_torch(_C)

__all__ = ["buffer_info", "counters", "host_view", "is_active", "pending", "reset_counters"]
