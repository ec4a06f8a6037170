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


class _ThenActivate(importlib.abc.Loader):
    """torch's own loader, followed by the import of `mps_ds.softmps`."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Leave it to torch's loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run torch's own code, then activate the device."""
        sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, _TorchFinder)]
        self._loader.exec_module(module)
        import mps_ds.softmps  # noqa: F401


class _TorchFinder(importlib.abc.MetaPathFinder):
    """Finds torch where the others find it, and wraps its loader.

    Stays until torch is executed: libraries ask importlib.util.find_spec whether it is installed.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Answer for `torch` alone."""
        if name != "torch":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenActivate(spec.loader)
        return spec


if "torch" in sys.modules:
    import mps_ds.softmps  # noqa: F401
else:
    sys.meta_path.insert(0, _TorchFinder())
