"""Replacing attributes of others so that all can be put back."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Any

_INHERITED = object()
_replaced: dict[int, tuple[Any, Any]] = {}  # by its id: what was put somewhere, what stood there


def replace(undo: ExitStack, owner: Any, name: str, value: Any) -> None:
    """Set `name` of a module or class; `undo` puts back what stood there, or that nothing did.

    Where somebody else has put something of theirs over it since, that stays, and may go on calling
    `value`.
    """
    before = vars(owner).get(name, _INHERITED)

    def put_back() -> None:
        if vars(owner).get(name) is not value:
            return
        if before is _INHERITED:
            delattr(owner, name)
        else:
            setattr(owner, name, before)

    undo.callback(put_back)
    if callable(before):
        _replaced.setdefault(id(value), (value, before))
    setattr(owner, name, value)


def sweep(undo: ExitStack, package: str) -> None:
    """Let `undo` find what modules have taken meanwhile of what :func:`replace` put somewhere.

    Modules of `package` that are imported later bind classes and functions of that time. Called
    before all replacements, so that it comes after they are put back.
    """
    undo.callback(_sweep, package)


def _sweep(package: str) -> None:
    for module_name, module in list(sys.modules.items()):
        if module_name.split(".")[0] == package and module is not None:
            for name, value in list(vars(module).items()):
                if id(value) in _replaced:
                    setattr(module, name, _replaced[id(value)][1])
    _replaced.clear()
