"""DeviceStats logs what the device and the machine use: when, under which names, and from where."""

from __future__ import annotations

import gc
import sys
from typing import Any

import psutil
import pytest
import torch
from zero_training import QUIET, STEPS, data, module

pytestmark = pytest.mark.skipif(not torch.backends.mps.is_available(), reason="no mps device")

NAMES = ("allocated_bytes", "driver_bytes", "recommended_bytes", "cpu_percent", "memory_percent")


@pytest.fixture
def logger(pl):
    """A logger that keeps what it is given."""

    class Kept(pl.loggers.Logger):
        name, version = "kept", 0
        group_separator = "."

        def __init__(self) -> None:
            super().__init__()
            self.rows: list[tuple[int, dict[str, Any]]] = []

        def log_hyperparams(self, *_: Any, **__: Any) -> None: ...

        def log_metrics(self, metrics: dict[str, Any], step: int | None = None) -> None:
            self.rows.append((step, metrics))

        def of(self, prefix: str) -> list[tuple[int, dict[str, Any]]]:
            return [row for row in self.rows if any(name.startswith(prefix) for name in row[1])]

    return Kept()


def fit(pl, logger, *callbacks, **options):
    arguments = {**QUIET, "logger": logger, "max_epochs": 1, "log_every_n_steps": 1, **options}
    logged = module(pl)
    logged.on_before_zero_grad = lambda _: logged.log("loss", 0.0)  # Lightning's own count of steps
    arguments = {"accelerator": "mps", "devices": 1, **arguments}
    trainer = pl.Trainer(callbacks=list(callbacks), **arguments)
    trainer.fit(logged, data())
    return trainer


def test_it_is_a_callback_of_the_distribution(lit, pl) -> None:
    assert issubclass(lit.DeviceStats, pl.Callback)


def test_the_figures_are_those_of_torch_and_psutil(lit, pl, logger, monkeypatch) -> None:
    told = {
        (torch.mps, "current_allocated_memory"): 11,
        (torch.mps, "driver_allocated_memory"): 22,
        (torch.mps, "recommended_max_memory"): 33,
        (psutil, "cpu_percent"): 44.0,
    }
    for (module_, name), value in told.items():
        monkeypatch.setattr(module_, name, lambda value=value: value)
    memory = type("Memory", (), {"percent": 55.0})
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    fit(pl, logger, lit.DeviceStats())
    expected = dict(zip([f"DeviceStats.{n}" for n in NAMES], (11, 22, 33, 44, 55), strict=True))
    assert [metrics for _, metrics in logger.of("DeviceStats")] == [expected] * STEPS


def test_real_figures_are_plausible(lit, pl, logger) -> None:
    gc.collect()  # what earlier tests left must not go in between
    fit(pl, logger, lit.DeviceStats())
    held = torch.zeros(1 << 20, device="mps")  # 4 MiB more than before
    fit(pl, logger, lit.DeviceStats())
    rows = [metrics for _, metrics in logger.of("DeviceStats")]
    for row in rows:
        assert 0 < row["DeviceStats.allocated_bytes"] <= row["DeviceStats.driver_bytes"]
        assert row["DeviceStats.recommended_bytes"] == torch.mps.recommended_max_memory() > 0
        assert 0 <= row["DeviceStats.cpu_percent"] <= 100
        assert 0 < row["DeviceStats.memory_percent"] <= 100
    more = rows[-1]["DeviceStats.allocated_bytes"] - rows[0]["DeviceStats.allocated_bytes"]
    assert more >= held.nbytes


@pytest.mark.parametrize("every", [1, 2, 3])
def test_steps_are_those_that_lightning_logs(lit, pl, logger, every) -> None:
    fit(pl, logger, lit.DeviceStats(), log_every_n_steps=every)
    steps = [step for step, _ in logger.of("DeviceStats")]
    assert steps == [step for step, _ in logger.of("loss")]
    assert steps == [step for step in range(STEPS) if (step + 1) % every == 0]


def test_accumulated_batches_are_one_step(lit, pl, logger) -> None:
    fit(pl, logger, lit.DeviceStats(), accumulate_grad_batches=2)
    assert [step for step, _ in logger.of("DeviceStats")] == list(range(STEPS // 2))


def test_log_every_0_steps_logs_nothing(lit, pl, logger) -> None:
    fit(pl, logger, lit.DeviceStats(), log_every_n_steps=0)
    assert logger.of("DeviceStats") == []


@pytest.mark.skipif(sys.platform == "darwin", reason="counts on the software device")
def test_nothing_waits_for_the_gpu(lit) -> None:
    from mps_ds import softmps
    from mps_ds.lightning import device_stats

    torch.ones(4, device="mps").add_(1)  # work that has been encoded
    with softmps.count() as count:
        device_stats.device_stats()
        assert (count.waits, count.commits, count.host_reads) == (0, 0, 0)
        torch.mps.synchronize()
    assert count.waits, "the count sees waits"


def test_without_psutil_the_error_says_how_to_get_it(lit, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    with pytest.raises(ModuleNotFoundError, match="pip install psutil"):
        lit.DeviceStats()


def test_without_a_logger_or_on_another_device_it_is_refused(lit, pl, logger) -> None:
    error = pl.utilities.exceptions.MisconfigurationException
    with pytest.raises(error, match="logger=False"):
        fit(pl, False, lit.DeviceStats())
    with pytest.raises(error, match="on cpu: use Lightning's DeviceStatsMonitor"):
        fit(pl, logger, lit.DeviceStats(), accelerator="cpu")


def test_lightnings_own_monitor_works_on_mps(pl, logger) -> None:
    fit(pl, logger, pl.callbacks.DeviceStatsMonitor())
    prefix = "DeviceStatsMonitor.on_train_batch_end."
    rows = [metrics for _, metrics in logger.of(prefix)]
    assert len(rows) == STEPS
    assert set(rows[0]) == {
        f"{prefix}{name}" for name in ("M1_vm_percent", "M1_percent", "M1_swap_percent")
    }
    assert all(0 <= value <= 100 for row in rows for value in row.values())
