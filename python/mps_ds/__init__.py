"""Native optimizer operations for training on Apple Silicon with PyTorch.

`mps_ds.ops` holds the operations, `mps_ds.optim` optimizers made of them;
`python -m mps_ds.selftest` shows that all of it works on this machine. Importing this package
alone loads nothing heavy.
"""

from __future__ import annotations

import importlib
import platform
import sys
from typing import Any

if sys.version_info < (3, 10):  # pip refuses these; a folder on PYTHONPATH meets them  # noqa: UP036
    raise ImportError(
        f"mps_ds needs Python 3.10 or later; this is Python {platform.python_version()} "
        f"({sys.executable}). Make an environment from a newer one"
    )

from . import _environment

__version__ = "0.1.0"
__all__ = ["__version__", "device_info", "ops", "optim"]

_SUBMODULES = frozenset(
    {
        "accelerate",
        "bench",
        "deepspeed",
        "distributed",
        "lightning",
        "ops",
        "optim",
        "selftest",
        "softmetal",
        "softmps",
        "transformers",
        "unified",
    }
)


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "device_info":
        from ._device import device_info

        return device_info
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if _environment.is_on("MPS_DS_SOFT"):
    # The start-up hook has done this already where the package is installed (mps_ds_soft.pth); here
    # for a package on PYTHONPATH.
    from . import _autosoft as _autosoft

if _environment.is_on("MPS_DS_DEEPSPEED"):
    from . import _autodeepspeed as _autodeepspeed  # the same for mps_ds_deepspeed.pth
