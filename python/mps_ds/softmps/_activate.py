"""Loads the extension, or says in one sentence why it cannot be loaded."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType

_BUILT_FOR = Path(__file__).with_name("built_for_torch.txt")


def load_extension() -> ModuleType:
    """Return ``mps_ds.softmps._C``; loading it gives the process its MPS device.

    Raises:
        ImportError: on a Mac (unless ``MPS_DS_SOFT=force``), if the extension was not built, or if
            it was built against another PyTorch than the one that is running.
    """
    if sys.platform == "darwin" and os.environ.get("MPS_DS_SOFT") != "force":
        raise ImportError(
            "mps_ds.softmps is a software stand-in for PyTorch's MPS device, and this Mac has the "
            "real one. Use device='mps' without importing mps_ds.softmps and without MPS_DS_SOFT, "
            "or set MPS_DS_SOFT=force to use the stand-in all the same."
        )
    if not _BUILT_FOR.exists():
        raise ImportError(
            "mps_ds.softmps was not built: this installation of mps_ds has no software MPS device "
            "(it is built on Linux only, and not with MPS_DS_BUILD=cpu)."
        )
    import torch

    built_for = _BUILT_FOR.read_text().strip()
    if torch.__version__ != built_for:
        raise ImportError(
            f"mps_ds.softmps was built against PyTorch {built_for}, and PyTorch "
            f"{torch.__version__} is running. Install torch=={built_for}, or build mps_ds again "
            "(pip install --no-build-isolation) with the PyTorch that is installed."
        )
    return importlib.import_module("mps_ds.softmps._C")
