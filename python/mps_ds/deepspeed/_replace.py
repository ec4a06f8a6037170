"""Replacing attributes of others so that all can be put back."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any


def replace(undo: ExitStack, owner: Any, name: str, value: Any) -> None:
    """Set `name` of a module or class; `undo` puts back what stood there, or that nothing did."""
    if name in vars(owner):
        undo.callback(setattr, owner, name, vars(owner)[name])
    else:  # inherited
        undo.callback(delattr, owner, name)
    setattr(owner, name, value)
