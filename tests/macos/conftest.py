"""Tests of the macOS build made on Linux. They download its parts, so all of them are slow."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "macos")]


@pytest.fixture(scope="session", autouse=True)
def sdk() -> Path:
    """The SDK, fetched and laid out."""
    if not sys.platform.startswith("linux"):
        pytest.skip("a Mac has Apple's own SDK")
    from macos import fetch, paths
    from macos import sdk as layout

    fetch.fetch()
    layout.make()
    return paths.SDK


@pytest.fixture(scope="session")
def wheel(sdk: Path) -> Path:
    """The wheel for macOS, built."""
    from macos import wheel as builder

    return builder.build()


@pytest.fixture(scope="session")
def extension(wheel: Path) -> Path:
    """The native file in it."""
    from macos import wheel as builder

    return builder.extract_extension(wheel)
