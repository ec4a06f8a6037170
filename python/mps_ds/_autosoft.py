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

from ._soft_requirements import torch_version, why_not


class _TorchFinder(importlib.abc.MetaPathFinder):
    """Finds torch where the others find it, and lets the device follow its execution.

    Looking for torch is not importing it (importlib.util.find_spec), so the device comes when
    torch's own code has run. Where it cannot come, torch's code does not run either, nor on any
    later attempt: Python would keep half of torch (see _soft_requirements).
    """

    def __init__(self) -> None:
        self._refused: ImportError | None = None

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
            refused = self._refused or why_not(torch_version(spec.origin))
            if refused is not None:
                raise refused
            execute(module)
            try:
                import mps_ds.softmps  # noqa: F401
            except ImportError as error:
                self._refused = error
                raise

        # On the loader itself: libraries ask a module's loader for more than this one method.
        spec.loader.exec_module = execute_then_activate  # type: ignore[method-assign]
        return spec


if "torch" in sys.modules:
    import mps_ds.softmps  # noqa: F401
else:
    sys.meta_path.insert(0, _TorchFinder())
