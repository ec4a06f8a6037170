"""MPS_DS_DEEPSPEED=1: a process that imports deepspeed gets mps_ds.deepspeed.enable() with it.

Installed as a start-up hook (mps_ds_deepspeed.pth), which does nothing without that variable. It
must not import torch or deepspeed itself.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType


class _DeepSpeedFinder(importlib.abc.MetaPathFinder):
    """Finds deepspeed where the others find it, and lets enable() follow its execution."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Answer for `deepspeed` alone."""
        if name != "deepspeed":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_then_enable(module: ModuleType) -> None:
            execute(module)
            from mps_ds.deepspeed import enable

            enable()

        spec.loader.exec_module = execute_then_enable  # type: ignore[method-assign]
        return spec


if "deepspeed" not in sys.modules:
    sys.meta_path.insert(0, _DeepSpeedFinder())
