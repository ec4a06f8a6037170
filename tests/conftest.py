"""The tests run on an `mps` device: a Mac's own, or the software one that a build on Linux has."""

import sys

import pytest

if sys.platform != "darwin":
    try:
        import mps_ds.softmps  # noqa: F401
    except ImportError as error:  # a CPU-only build: only its tests can run
        if "MPS_DS_BUILD" not in str(error):
            raise

import torch


@pytest.fixture(params=["mps", "cpu"])
def device(request: pytest.FixtureRequest) -> torch.device:
    """Every device that the operations run on."""
    if request.param == "mps" and not torch.backends.mps.is_available():
        pytest.skip("no mps device in this build")
    return torch.device(request.param)
