"""Imported before anything that imports torch: says how to get it where it is not installed."""

import sys

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise  # torch is there, and something that it needs is not: its own message says what
    raise ImportError(
        "mps_ds needs PyTorch 2.10 or newer, and none is installed for this Python. Install it "
        f"with: {sys.executable} -m pip install 'torch>=2.10'"
    ) from None
