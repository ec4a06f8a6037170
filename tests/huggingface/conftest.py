"""Transformers and Accelerate are extras: without them these tests are skipped.

Nothing is downloaded: models are built from configurations.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # for the modules that the tests share
os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.fixture(autouse=True)
def _an_accelerate_of_its_own() -> Iterator[None]:
    """Accelerate keeps device and precision of the first Accelerator for the whole process."""
    from accelerate.state import AcceleratorState, GradientState

    before = dict(os.environ)
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    yield
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    os.environ.clear()
    os.environ.update(before)
