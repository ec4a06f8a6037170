"""Switches in the environment. The start-up hooks (mps_ds_*.pth) read theirs in the same way."""

from __future__ import annotations

import os
from collections.abc import Mapping


def is_on(name: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a variable is set to anything but "", "0" and "false" (in any case)."""
    return environment.get(name, "").strip().lower() not in ("", "0", "false")
