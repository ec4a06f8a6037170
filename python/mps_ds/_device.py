"""Facts about the device that the operations run on."""

from __future__ import annotations

import platform
import sys
from typing import Any


def device_info() -> dict[str, Any]:
    """What the Metal operations run on.

    Returns:
        `name` (the chip), `software` (True: a stand-in on the CPU that proves correctness and never
        speed), `macos` (its version, "" elsewhere), `unified_memory`, `metal3` and
        `argument_buffers_tier` (the kernels need True and 2), and in bytes
        `recommended_working_set_bytes`, `max_buffer_bytes`, `max_threadgroup_memory_bytes`.

    Raises:
        ImportError: PyTorch is not installed.
        RuntimeError: this build has no Metal operations (MPS_DS_BUILD=cpu), or there is no device.
    """
    from . import _needs_torch  # noqa: F401 - before what imports torch
    from ._native import NO_METAL, C

    if not C.has_metal:
        raise RuntimeError(NO_METAL)
    software = sys.platform != "darwin"
    return {"software": software, "macos": platform.mac_ver()[0], **C.device_facts()}
