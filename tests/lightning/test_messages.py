"""What the table of the self test says of Lightning stands in messages as they are raised."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
import zero_training

import mps_ds.lightning
from mps_ds.lightning import _family
from mps_ds.optim import FusedAdam
from mps_ds.selftest.explain import explain


def words_of(error: pytest.ExceptionInfo[Any]) -> list[str]:
    return [row.words for row in explain(str(error.value))]


def fit(pl: Any, **arguments: Any) -> None:
    given = {"accelerator": "mps", "devices": 1, **zero_training.QUIET, **arguments}
    pl.Trainer(**given).fit(zero_training.module(pl), zero_training.data())


def test_without_lightning(monkeypatch) -> None:
    monkeypatch.setattr(_family, "installed", lambda: ())
    with pytest.raises(ImportError) as error:
        _family.default()
    assert words_of(error) == ["mps_ds.lightning needs Lightning 2.6"]


def test_plugins(lit, pl) -> None:
    for family in _family.installed():
        if family.name != lit.name:
            other = mps_ds.lightning.family(family.name).MixedPrecision("bf16-mixed")
            with pytest.raises(Exception, match="plugin") as error:
                fit(pl, plugins=[other])
            assert words_of(error) == ["Found invalid type for plugin <mps_ds.lightning"]
    with pytest.raises(ValueError, match="plugins") as error:
        fit(pl, precision="16-mixed", plugins=[lit.MixedPrecision("16-mixed")])
    assert words_of(error) == ["Received both ...plugins=<mps_ds.lightning"]


def test_bounds_for_another_optimizer(lit) -> None:
    other = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))])
    with pytest.raises(TypeError) as error:
        lit.FabricPrecision(max_norm=1.0).optimizer_step(other)
    assert words_of(error) == ["within a step, but the optimizer is"]


def test_clipping_by_an_optimizer_that_unscales(pl) -> None:
    optimizer = FusedAdam([torch.nn.Parameter(torch.ones(1))], step_supports_amp_scaling=True)
    with pytest.raises(RuntimeError) as error:
        pl.plugins.MixedPrecision("16-mixed", "mps").clip_gradients(optimizer, 1.0)
    wanted = "does not allow for gradient clipping because it performs unscaling"
    assert words_of(error) == [wanted]


def test_strategies_that_are_not_registered(pl) -> None:
    with pytest.raises(ValueError, match="strategy") as error:
        fit(pl, strategy="mps_zero9")
    assert words_of(error) == ["You selected an invalid strategy name: ...strategy='mps_"]


def test_strategies_elsewhere(lit, pl, monkeypatch) -> None:
    with pytest.raises(RuntimeError) as error:
        fit(pl, accelerator="cpu", strategy="mps_zero2")
    assert words_of(error) == ["is for accelerator='mps', and"]
    with pytest.raises(RuntimeError) as error:
        fit(pl, strategy="mps_zero2", plugins=[lit.MixedPrecision("16-mixed")])
    assert words_of(error) == ["does not work with the plugin"]
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError) as error:
        fit(pl, strategy="mps_zero2")
    assert words_of(error) == ["in the environment, but Lightning sees"]
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(RuntimeError) as error:
        lit.ZeroStrategy()
    assert words_of(error) == ["needs an mps device, and this process has none"]


def test_two_backward_passes(lit) -> None:
    class Engine:
        def zero_optimization_stage(self) -> int:
            return 2

        def is_gradient_accumulation_boundary(self) -> bool:
            return True

    strategy, engine = lit.ZeroStrategy(), Engine()
    strategy.check_stepped(engine)
    with pytest.raises(RuntimeError) as error:
        strategy.check_stepped(engine)
    assert words_of(error) == ["backward() came twice without optimizer.step()"]


def test_what_is_not_installed(lit, monkeypatch) -> None:
    zero_training.switch_deepspeed_off()
    monkeypatch.setitem(sys.modules, "deepspeed", None)
    with pytest.raises(ImportError) as error:
        lit.ZeroStrategy()
    assert words_of(error) == ["DeepSpeed is not installed"]
    monkeypatch.setitem(sys.modules, "psutil", None)
    with pytest.raises(ImportError) as error:
        lit.DeviceStats()
    assert words_of(error) == ["DeviceStats needs psutil"]
