"""Fixtures that watch kernels: the tests of every operation may use them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def race_free() -> Iterator[Any]:
    """What the kernels of the test do to memory, as a `softmetal.Tracing`; a race is an error."""
    if sys.platform == "darwin":
        pytest.skip("only the software device can watch its kernels")
    from mps_ds import softmetal

    with softmetal.tracing() as trace:
        yield trace
