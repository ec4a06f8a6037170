"""ZeRO strategies by name: registered for each Trainer and Fabric; what is refused, and how."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
import zero_training
from zero_training import data, module, trainer

import mps_ds.lightning

pytest.importorskip("deepspeed.runtime")
pytestmark = pytest.mark.skipif(not torch.backends.mps.is_available(), reason="no mps device")

BUILT_IN = {
    "mps_zero1": {"stage": 1},
    "mps_zero2": {"stage": 2},
    "mps_zero2_offload": {"stage": 2, "offload_optimizer": True},
    "mps_zero3": {"stage": 3},
}


@pytest.fixture(autouse=True, scope="module")
def _switch_deepspeed_off():
    yield
    zero_training.switch_deepspeed_off()


@pytest.fixture
def registries(pl, fabric):
    return [pl.strategies.StrategyRegistry, fabric.strategies.STRATEGY_REGISTRY]


@pytest.fixture
def own_name():
    """A name that a test registers, gone afterwards."""
    yield "mps_zero_of_a_test"
    zero_training.forget_strategy("mps_zero_of_a_test")


def test_names_are_registered_with_the_options_they_stand_for(lit, registries) -> None:
    for registry, strategy in zip(
        registries, (lit.ZeroStrategy, lit.FabricZeroStrategy), strict=True
    ):
        for name, options in BUILT_IN.items():
            assert registry[name]["strategy"] is strategy
            assert registry[name]["init_params"] == options
            assert registry[name]["description"]
        assert registry["mps_replicas"]["description"]


def test_registering_again_changes_nothing(lit, registries) -> None:
    from mps_ds.lightning import _family, strategies

    before = [dict(registry) for registry in registries]
    strategies.register(_family.get(lit.name))
    assert [dict(registry) for registry in registries] == before


def test_the_strategy_is_made_of_the_distributions_own(lit, pl, fabric) -> None:
    assert issubclass(lit.ZeroStrategy, pl.strategies.DeepSpeedStrategy)
    assert issubclass(lit.FabricZeroStrategy, fabric.strategies.DeepSpeedStrategy)


@pytest.mark.slow
def test_importing_does_not_import_deepspeed() -> None:
    script = "import sys, mps_ds.lightning; assert 'deepspeed' not in sys.modules"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MPS_DS_DEEP")}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)


def test_without_deepspeed_the_error_says_how_to_get_it(lit, monkeypatch) -> None:
    zero_training.switch_deepspeed_off()
    monkeypatch.setitem(sys.modules, "deepspeed", None)  # as if it were not installed
    for strategy in (lit.ZeroStrategy, lit.FabricZeroStrategy):
        with pytest.raises(ImportError, match=r"pip install 'mps_ds\[deepspeed\]'"):
            strategy()


def test_without_an_mps_device_the_error_says_where_to_look(registries, monkeypatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    for registry in registries:
        for name in (*BUILT_IN, "mps_replicas"):
            with pytest.raises(RuntimeError, match=r"needs an mps device.*mps_ds.selftest"):
                registry.get(name)


@pytest.mark.parametrize("name", ["mps_zero2", "mps_replicas"])
def test_another_accelerator_is_refused(pl, fabric, name) -> None:
    arguments = {"accelerator": "cpu", "devices": 1, "strategy": name}
    with pytest.raises(RuntimeError, match=r"accelerator='mps'.*device is cpu"):
        pl.Trainer(**arguments, **zero_training.QUIET).fit(module(pl), data())
    with pytest.raises(RuntimeError, match=r"accelerator='mps'.*device is cpu"):
        fabric.Fabric(**arguments).launch()


def test_precision_plugins_that_do_not_know_deepspeed_are_refused(lit, pl, fabric) -> None:
    plugin = lit.MixedPrecision("16-mixed")
    with pytest.raises(RuntimeError, match=r"plugin MixedPrecision.*precision='32-true'"):
        trainer(pl, "mps_zero2", plugins=[plugin]).fit(module(pl), data())
    arguments = {"accelerator": "mps", "devices": 1, "strategy": "mps_zero2"}
    plugin = lit.FabricMixedPrecision("16-mixed")
    with pytest.raises(RuntimeError, match=r"plugin FabricMixedPrecision"):
        fabric.Fabric(plugins=[plugin], **arguments).launch()


def test_lightning_refuses_two_devices_and_instances(lit, pl, fabric) -> None:
    # Not ours to say: why there are names, and why several processes come from torchrun.
    arguments = {"accelerator": "mps", "strategy": "mps_zero2"}
    with pytest.raises(pl.utilities.exceptions.MisconfigurationException):
        pl.Trainer(devices=2, **arguments)
    with pytest.raises(Exception, match="requested"):
        fabric.Fabric(devices=2, **arguments)
    with pytest.raises(ValueError, match="not supported on the MPS accelerator"):
        pl.Trainer(accelerator="mps", strategy=lit.ZeroStrategy(stage=2))
    with pytest.raises(ValueError, match="not supported on the MPS accelerator"):
        fabric.Fabric(accelerator="mps", strategy=lit.FabricZeroStrategy(stage=2))


@pytest.mark.parametrize("name", ["mps_zero2", "mps_replicas"])
@pytest.mark.parametrize("nodes", [1, 2])
def test_processes_that_torchrun_started_are_counted(pl, fabric, monkeypatch, nodes, name) -> None:
    started = {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "4", "RANK": "3", "LOCAL_RANK": "1"}
    for variable, value in started.items():
        monkeypatch.setenv(variable, value)
    trainer_ = trainer(pl, name, num_nodes=nodes)
    fabric_ = fabric.Fabric(accelerator="mps", devices=1, num_nodes=nodes, strategy=name)
    for strategy in (trainer_.strategy, fabric_.strategy):
        assert strategy.num_processes == 4 // nodes
        assert (strategy.world_size, strategy.global_rank, strategy.local_rank) == (4, 3, 1)
        assert strategy.root_device == torch.device("mps", 0)
        assert strategy.distributed_sampler_kwargs == {"num_replicas": 4, "rank": 3}
        # The check that Lightning makes before it starts.
        strategy.cluster_environment.validate_settings(strategy.num_processes, nodes)


def test_processes_that_lightning_does_not_see_are_refused(pl, fabric, monkeypatch) -> None:
    # By a launcher that Lightning does not know.
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match=r"WORLD_SIZE=2.*torchrun"):
        trainer(pl, "mps_zero2").fit(module(pl), data())
    monkeypatch.setenv("WORLD_SIZE", "2")  # the Trainer has removed it
    with pytest.raises(RuntimeError, match=r"WORLD_SIZE=2.*torchrun"):
        fabric.Fabric(accelerator="mps", devices=1, strategy="mps_zero2").launch()


def test_a_strategy_of_ones_own(pl, fabric, own_name) -> None:
    from mps_ds.lightning import register_strategy

    config = {"zero_optimization": {"stage": 1}, "gradient_clipping": 0.25}
    register_strategy(own_name, "of a test", config=config)
    first, second = (trainer(pl, own_name).strategy for _ in range(2))
    assert first.config == config
    first.config["gradient_accumulation_steps"] = 2  # as Lightning does when it starts
    assert second.config == config
    made = fabric.Fabric(accelerator="mps", devices=1, strategy=own_name).strategy
    assert made.config["gradient_clipping"] == 0.25

    register_strategy(own_name, stage=3)
    assert trainer(pl, own_name).strategy.config["zero_optimization"]["stage"] == 3


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("mps_deepspeed", "'deepspeed' in it"),
        ("mps_ddp", "'ddp' in it"),
        ("mps_dp", "'dp' in it"),
        ("MPS_zero", "lower case"),
        ("mps_zero2", "already"),
        ("single_xla", "already"),
    ],
)
def test_names_that_would_not_work_are_refused(lit, registries, name, why) -> None:
    from mps_ds.lightning import register_strategy

    before = [dict(registry) for registry in registries]
    with pytest.raises(ValueError, match=f"name='{name}'.*{why}"):
        register_strategy(name, stage=1)
    assert [dict(registry) for registry in registries] == before


def test_buckets_are_no_larger_than_all_gradients(pl) -> None:
    strategy = trainer(pl, "mps_zero2").strategy
    model = zero_training.network()
    model[0].bias.requires_grad_(False)
    strategy.cap_bucket(model)
    assert strategy.config["zero_optimization"]["reduce_bucket_size"] == 16 * 32 + 32 + 1
    strategy.config["zero_optimization"]["reduce_bucket_size"] = 20
    strategy.cap_bucket(model)
    assert strategy.config["zero_optimization"]["reduce_bucket_size"] == 20


def test_strategies_that_could_not_be_made_are_refused_at_once(lit) -> None:
    with pytest.raises(ValueError, match="name is empty"):
        mps_ds.lightning.register_strategy("", stage=2)
    with pytest.raises(
        TypeError, match=r"stagee is no option of DeepSpeedStrategy; it has .*stage"
    ):
        mps_ds.lightning.register_strategy("mine", stagee=2)
    with pytest.raises(ValueError, match="stage is 7; accepted are 0 to 3"):
        mps_ds.lightning.register_strategy("mine", stage=7)
    mps_ds.lightning.register_strategy("mine_that_was_refused_before", stage=1)
