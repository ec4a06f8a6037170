"""Whether the software device can start here; asks without importing torch.

It has to be known before torch's code runs: an `import torch` that fails after that leaves half of
torch in the process, and the next attempt ends in an error of PyTorch's C++ code.
"""

from __future__ import annotations

import os
import re
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

_FOLDER = Path(__file__).with_name("softmps")
_VERSION = re.compile(r"^__version__ = ['\"]([^'\"]+)['\"]", re.MULTILINE)
_BUILD = "python -m pip install --force-reinstall --no-deps"


class SoftwareDeviceError(ImportError):
    """The software device cannot start: `problem` says why, `remedy` what to do, in lines."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem} {' '.join(remedy.split())}")
        self.problem = problem
        self.remedy = remedy


def built_for() -> str | None:
    """The PyTorch that the software device was built for; None: this build has no such device."""
    recorded = _FOLDER / "built_for_torch.txt"
    extension = any((_FOLDER / f"_C{suffix}").exists() for suffix in EXTENSION_SUFFIXES)
    return recorded.read_text().strip() if extension and recorded.exists() else None


def torch_version(origin: str | None) -> str | None:
    """The version of the torch whose `__init__.py` is `origin`; None: it does not say."""
    try:
        found = _VERSION.search(Path(origin or "").with_name("version.py").read_text())
    except (OSError, ValueError):
        return None
    return found.group(1) if found else None


def why_not(torch: str | None) -> SoftwareDeviceError | None:
    """Why the software device cannot start with PyTorch `torch` (None: of unknown version)."""
    if sys.platform == "darwin" and os.environ.get("MPS_DS_SOFT") != "force":
        return SoftwareDeviceError(
            "mps_ds.softmps is a software stand-in for PyTorch's MPS device, and this Mac has the "
            "real one.",
            "Use device='mps' without importing mps_ds.softmps and without MPS_DS_SOFT,\n"
            "or set MPS_DS_SOFT=force to use the stand-in all the same.",
        )
    needed = built_for()
    if needed is None:
        return SoftwareDeviceError(
            "This build of mps_ds has no software MPS device: MPS_DS_BUILD=cpu leaves it out, and "
            "it is built on Linux only.",
            "Do without it (unset MPS_DS_SOFT), or build it on Linux, in the source folder, with\n"
            f"    env -u MPS_DS_SOFT -u MPS_DS_BUILD {_BUILD} .",
        )
    if torch not in (None, needed):
        return SoftwareDeviceError(
            f"The software MPS device was built for PyTorch {needed} and runs with no other; this "
            f"is PyTorch {torch}.",
            "Do without it (unset MPS_DS_SOFT), install the PyTorch that it was built for with\n"
            f"    python -m pip install torch=={needed}\n"
            "or build it for this one, in the source folder, with\n"
            f"    env -u MPS_DS_SOFT {_BUILD} --no-build-isolation .",
        )
    return None


def does_not_load(error: ImportError) -> SoftwareDeviceError:
    """For an extension that is there, for this PyTorch, and that the system cannot load."""
    return SoftwareDeviceError(
        f"The software MPS device does not load: {error}.",
        "Do without it (unset MPS_DS_SOFT), or run `make selftest` in the source folder, which\n"
        "installs the system packages that it needs and builds it anew.",
    )
