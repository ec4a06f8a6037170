"""Every test runs with both of Lightning's distributions, as far as they are installed."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

# For helpers that are not tests: as a package this folder would hide the library of its name.
sys.path.append(str(Path(__file__).parent))


def _is_installed(package: str) -> bool:
    spec = importlib.util.find_spec(package)
    return spec is not None and spec.origin is not None  # this very folder has no origin


PACKAGES = {
    "lightning": ("lightning.pytorch", "lightning.fabric"),
    "pytorch_lightning": ("pytorch_lightning", "lightning_fabric"),
}
NAMES = [name for name in PACKAGES if _is_installed(name)]
if not NAMES:
    collect_ignore_glob = ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without an mps device (`--cpu-only`) there is nothing to test here."""
    if torch.backends.mps.is_available():
        return
    for item in items:
        if "tests/lightning" in item.path.as_posix():
            item.add_marker(pytest.mark.skip(reason="no mps device in this build"))


@pytest.fixture(scope="session", params=NAMES)
def lit(request: pytest.FixtureRequest) -> Any:
    """What mps_ds.lightning makes of one distribution."""
    import mps_ds.lightning

    names = mps_ds.lightning.family(request.param)
    for package in PACKAGES[request.param]:
        logging.getLogger(package).setLevel(logging.ERROR)
    return names


@pytest.fixture(scope="session")
def pl(lit: Any) -> Any:
    """The package of the Trainer."""
    return importlib.import_module(PACKAGES[lit.name][0])


@pytest.fixture(scope="session")
def fabric(lit: Any) -> Any:
    """The package of Fabric."""
    return importlib.import_module(PACKAGES[lit.name][1])


@pytest.fixture
def told(pl: Any, caplog: pytest.LogCaptureFixture) -> Any:
    """What mps_ds has said through Lightning's logger so far: a function that lists it."""
    logger = logging.getLogger(f"{pl.__name__}.utilities.rank_zero")
    with caplog.at_level(logging.INFO, logger=logger.name):
        yield lambda: [m for m in caplog.messages if m.startswith("mps_ds: ")]


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings():
        # Lightning's advice: few workers, few batches, a logger that is missing.
        warnings.filterwarnings("ignore", module=r"(pytorch_)?lightning")
        yield
