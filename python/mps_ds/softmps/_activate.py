"""Loads the extension, or says in one sentence why it cannot be loaded."""

from __future__ import annotations

import importlib
from types import ModuleType

from .. import _needs_torch as _needs_torch
from .._soft_requirements import does_not_load, why_not


def load_extension() -> ModuleType:
    """Return ``mps_ds.softmps._C``; loading it gives the process its MPS device.

    Raises:
        ImportError: on a Mac (unless ``MPS_DS_SOFT=force``), if the extension was not built, if it
            was built for another PyTorch than the one that is running, or if it does not load.
    """
    import torch

    refused = why_not(torch.__version__)
    if refused is not None:
        raise refused
    try:
        return importlib.import_module("mps_ds.softmps._C")
    except ImportError as error:
        raise does_not_load(error) from error
