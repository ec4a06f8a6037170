"""MPS_DS_SOFT=1: every Python process, children too, gets the software `mps` device with torch.

Installed as a start-up hook (mps_ds_soft.pth), which does nothing without that variable. It must
not import torch itself: processes that do not use torch should not pay for it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType


class _TorchFinder(importlib.abc.MetaPathFinder):
    """Finds torch where the others find it, and lets the device follow its execution.

    Looking for torch is not importing it (importlib.util.find_spec), so the device comes when
    torch's own code has run.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Answer for `torch` alone."""
        if name != "torch":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_then_activate(module: ModuleType) -> None:
            execute(module)
            import mps_ds.softmps  # noqa: F401

        # On the loader itself: libraries ask a module's loader for more than this one method.
        spec.loader.exec_module = execute_then_activate  # type: ignore[method-assign]
        return spec


if "torch" in sys.modules:
    import mps_ds.softmps  # noqa: F401
else:
    sys.meta_path.insert(0, _TorchFinder())
