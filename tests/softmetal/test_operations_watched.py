"""All tests of the operations and optimizers again, on a device that watches or chooses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent

DEVICES = {
    "races and bounds": {"SOFTMETAL_TRACE": "1"},
    "shuffled, few threads": {
        "SOFTMETAL_ORDER": "shuffled",
        "SOFTMETAL_SEED": "11",
        "SOFTMETAL_MAX_THREADS": "448",
        "SOFTMETAL_DELAY": "1",
        "SOFTMETAL_THREADS": "2",
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_the_operations_tests_pass(device: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow", "-p", "no:cacheprovider"]
        + [str(TESTS / folder) for folder in ("ops", "optim")],
        env={**os.environ, **DEVICES[device]},
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-4000:]
    assert " passed" in result.stdout
