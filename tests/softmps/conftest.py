"""Tests of the software MPS device. On a Mac there is nothing to test here."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

if sys.platform == "darwin":
    collect_ignore_glob = ["*"]
else:
    import mps_ds.softmps as softmps

    @pytest.fixture(autouse=True)
    def _nothing_pending() -> Iterator[None]:
        """Each test starts with an idle stream and zero counters, and leaves the stream idle."""
        import torch

        torch.mps.synchronize()
        softmps.reset_counters()
        yield
        torch.mps.synchronize()


@pytest.fixture
def run_python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program in a process of its own: ``run_python(code, SOME_VARIABLE="1")``."""

    def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
        # This process has the device by import; what a child has is for the test to say.
        inherited = {k: v for k, v in os.environ.items() if k != "MPS_DS_SOFT"}
        inherited["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        return subprocess.run(
            [sys.executable, "-c", code],
            env={**inherited, **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run
