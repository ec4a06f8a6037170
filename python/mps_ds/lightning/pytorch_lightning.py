"""The classes made of `pytorch_lightning`'s and `lightning_fabric`'s, by their public names.

The same as `mps_ds.lightning.family("pytorch_lightning")`, as a module.
"""

from __future__ import annotations

from typing import Any

from . import __all__ as _names
from . import family


def __getattr__(name: str) -> Any:
    if name in _names and hasattr(family("pytorch_lightning"), name):
        return getattr(family("pytorch_lightning"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
