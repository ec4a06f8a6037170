"""MPS_DS_DEEPSPEED=1: a process that imports deepspeed gets mps_ds.deepspeed.enable() with it.

Installed as a start-up hook (mps_ds_deepspeed.pth), which does nothing without that variable, and
nothing where DS_ACCELERATOR asks for another device. It must not import torch or deepspeed itself.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import logging
import os
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
        spec = self._from_others(name, path, target)
        if spec is not None and spec.loader is not None:
            _let_enable_follow(spec.loader)
        return spec

    def _from_others(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> importlib.machinery.ModuleSpec | None:
        """Of every kind: an editable installation brings a finder of its own."""
        for finder in sys.meta_path:
            if finder is not self:
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return spec
        return None


def _let_enable_follow(loader: importlib.abc.Loader) -> None:
    """On the loader itself: libraries ask a module's loader for more than this one method."""
    if "exec_module" in vars(loader):  # looked for before, where a loader is kept
        return
    execute = loader.exec_module

    def execute_then_enable(module: ModuleType) -> None:
        execute(module)
        if module.__name__ == "deepspeed":  # a zip archive has one loader for all that is in it
            _enable()

    loader.exec_module = execute_then_enable  # type: ignore[method-assign]


def _enable() -> None:
    """Raise rather than let a program that asked for mps train on what else DeepSpeed finds."""
    wanted = os.environ.get("DS_ACCELERATOR", "mps")
    if wanted != "mps":  # the wish of this process; the variable may be inherited
        logging.getLogger(__name__).info("DS_ACCELERATOR=%s: no mps_ds.deepspeed.enable()", wanted)
        return
    from mps_ds.deepspeed import enable

    try:
        enable()
    except (ImportError, RuntimeError) as error:
        raise RuntimeError(
            f"{error}\n`import deepspeed` calls mps_ds.deepspeed.enable() where MPS_DS_DEEPSPEED "
            "is set; child processes of a program that called it inherit that. For DeepSpeed "
            "without mps_ds unset MPS_DS_DEEPSPEED, or set DS_ACCELERATOR to another device"
        ) from error


if "deepspeed" not in sys.modules:
    sys.meta_path.insert(0, _DeepSpeedFinder())
