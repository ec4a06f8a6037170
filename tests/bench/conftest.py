"""Small sizes in place of those of real models."""

import pytest
import torch

from mps_ds.bench import shapes, training
from mps_ds.bench.shapes import Shapes
from mps_ds.selftest.gpt import Shape

FEW = Shapes("few", "few tensors", [(33, 7), (5,), (1,)])
TINY_GPT = Shape(vocabulary=31, context=8, width=8, heads=2, layers=1)


@pytest.fixture
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every list of sizes is one short one, and the model a tiny one."""
    for name in ("full", "quick", "countable"):
        monkeypatch.setattr(shapes, name, lambda: [FEW])
    for name in ("GPT2", "COUNTABLE"):
        monkeypatch.setattr(training, name, TINY_GPT)
    monkeypatch.setattr(training, "BATCHES", ((2, 8), (1, 8)))


@pytest.fixture
def software() -> None:
    """Only where `mps` is the software device."""
    from mps_ds.selftest.checks.dispatch import counters_available

    if not counters_available():
        pytest.skip("an instrument of the software device")


@pytest.fixture
def mps() -> None:
    if not torch.backends.mps.is_available():
        pytest.skip("no mps device in this build")
