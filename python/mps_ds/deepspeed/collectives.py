"""Collectives on mps tensors (mps_ds.distributed), for as long as DeepSpeed or others want them."""

from __future__ import annotations

from contextlib import ExitStack
from functools import wraps

from mps_ds import distributed

from ._replace import replace


def take_mps(undo: ExitStack) -> None:
    """Enable them; `undo` ends that where nobody has called mps_ds.distributed.enable() too."""
    if distributed.is_enabled():  # others had it first, and keep it
        return
    own = distributed.enable
    others = False

    @wraps(own)
    def enable() -> None:
        nonlocal others
        own()
        others = True

    def end() -> None:
        if not others:
            distributed.disable()

    own()
    undo.callback(end)
    replace(undo, distributed, "enable", enable)
