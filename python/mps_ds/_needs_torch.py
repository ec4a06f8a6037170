"""Imported before anything that imports torch: says how to get it where it is not installed."""

import platform
import sys


def how_to_install() -> str:
    """What to do where PyTorch is missing or too old, in one sentence."""
    if sys.platform == "darwin" and platform.machine() != "arm64":
        return (
            f"There is none for this Python, an Intel build ({platform.machine()}), which on Apple "
            "silicon runs under Rosetta. python -m mps_ds.selftest says how to get a native one"
        )
    return f"Install it with: {sys.executable} -m pip install 'torch>=2.10'"


try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise  # torch is there, and something that it needs is not: its own message says what
    raise ImportError(
        "mps_ds needs PyTorch 2.10 or newer, and none is installed for this Python. "
        + how_to_install()
    ) from None
