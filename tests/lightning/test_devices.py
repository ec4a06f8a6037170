"""How Lightning finds the mps device and what it says, with either of its two sets of packages.

These are facts about Lightning 2.6 that our documentation and diagnosis rest on, seen on this
machine's device. What `mps_ds.selftest` says of the same machines is tested in
tests/selftest/test_diagnosis.py.
"""

from __future__ import annotations

import importlib
import os
import platform
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

pytest.importorskip("lightning")
pytest.importorskip("pytorch_lightning")

from mps_ds.selftest import diagnosis
from mps_ds.selftest.explain import explain
from mps_ds.selftest.machine import Machine

ONE_DEVICE = [1, [0], "1", "0,", -1, "-1", "auto"]
SEVERAL_DEVICES = {2: "[0, 1]", "2": "[0, 1]", "0,2": "[0, 2]"}
NO_DEVICE = [0, "0", []]
NOT_A_DEVICE = [None, 1.0, True]
QUIET: dict[str, Any] = {
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


@dataclass(frozen=True)
class Packages:
    """One of the two sets of packages that Lightning comes as; they share no class."""

    pytorch: str
    fabric: str

    def find(self, path: str, name: str) -> Any:
        """`name` of the module `path`, which begins with pytorch or fabric."""
        root, _, rest = path.partition(".")
        return getattr(importlib.import_module(f"{getattr(self, root)}.{rest}"), name)

    @property
    def misconfiguration(self) -> type[Exception]:
        """Trainer and Fabric raise the same class."""
        return self.find("fabric.utilities.exceptions", "MisconfigurationException")

    def trainer(self, **options: Any) -> Any:
        """A Trainer that prints nothing and writes no files."""
        return importlib.import_module(self.pytorch).Trainer(**QUIET, **options)

    def run_with(self, **options: Any) -> Any:
        """A Fabric."""
        return importlib.import_module(self.fabric).Fabric(**options)


@pytest.fixture(
    params=[
        Packages("lightning.pytorch", "lightning.fabric"),
        Packages("pytorch_lightning", "lightning_fabric"),
    ],
    ids=lambda packages: packages.pytorch,
)
def packages(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Packages]:
    """Both, on a machine with mps. Lightning asks about the machine once: here for each test."""
    if not torch.backends.mps.is_available():
        pytest.skip("no mps device in this build")
    if sys.platform != "darwin":  # as MPS_DS_SOFT=1 does
        monkeypatch.setattr(platform, "processor", lambda: "arm")
    monkeypatch.delenv("DISABLE_MPS", raising=False)
    available = request.param.find("fabric.accelerators.mps", "MPSAccelerator").is_available
    available.cache_clear()
    yield request.param
    available.cache_clear()


def what_it_takes(packages: Packages, **options: Any) -> list[tuple[str, int, torch.device]]:
    """Accelerator, number of devices and root device, of the Trainer and of Fabric."""
    trainer, fabric = packages.trainer(**options), packages.run_with(**options)
    return [
        (type(trainer.accelerator).__name__, trainer.num_devices, trainer.strategy.root_device),
        (type(fabric.accelerator).__name__, fabric.world_size, fabric.device),
    ]


MPS = ("MPSAccelerator", 1, torch.device("mps", 0))
CPU = ("CPUAccelerator", 1, torch.device("cpu"))


@pytest.mark.parametrize("accelerator", ["mps", "auto", "gpu"])
def test_all_names_of_the_accelerator_take_the_one_device(packages, accelerator) -> None:
    assert what_it_takes(packages, accelerator=accelerator) == [MPS, MPS]


@pytest.mark.parametrize("devices", ONE_DEVICE, ids=repr)
def test_all_ways_to_ask_for_one_device(packages, devices) -> None:
    """Lightning#15861, with the name and with an instance of the accelerator."""
    assert what_it_takes(packages, accelerator="mps", devices=devices) == [MPS, MPS]
    trainer = packages.trainer(
        accelerator=packages.find("pytorch.accelerators", "MPSAccelerator")(), devices=devices
    )
    assert (trainer.num_devices, trainer.strategy.root_device) == MPS[1:]


@pytest.mark.parametrize(
    ("devices", "requested"),
    [*SEVERAL_DEVICES.items(), ([0, 2], "[0, 2]"), ([1], "[1]")],
    ids=repr,
)
def test_several_devices_are_refused(packages, devices, requested) -> None:
    for create in (packages.trainer, packages.run_with):
        with pytest.raises(packages.misconfiguration) as error:
            create(accelerator="mps", devices=devices)
        assert str(error.value) == (
            f"You requested gpu: {requested}\n But your machine only has: [0]"
        )


def test_several_devices_are_not_checked_under_torchrun(packages, monkeypatch) -> None:
    """Each process of it is expected to see one device of its own."""
    parse = packages.find("pytorch.accelerators", "MPSAccelerator").parse_devices
    with pytest.raises(packages.misconfiguration):
        parse(2)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    assert parse(2) == [0, 1]


@pytest.mark.parametrize("devices", NO_DEVICE, ids=repr)
def test_no_devices_are_refused(packages, devices) -> None:
    said = "is not a valid input using mps accelerator"
    with pytest.raises(packages.misconfiguration, match=said):
        packages.trainer(accelerator="mps", devices=devices)
    with pytest.raises(ValueError, match=said):
        packages.run_with(accelerator="mps", devices=devices)


@pytest.mark.parametrize("devices", NOT_A_DEVICE, ids=repr)
def test_devices_of_another_type_are_refused(packages, devices) -> None:
    for create in (packages.trainer, packages.run_with):
        with pytest.raises(TypeError, match="must be an int, a string, a sequence of ints"):
            create(accelerator="mps", devices=devices)


@pytest.mark.parametrize("strategy", ["ddp", "ddp_spawn", "deepspeed", "deepspeed_stage_2"])
@pytest.mark.parametrize("accelerator", ["mps", "auto", "gpu"])
def test_parallel_strategies_are_refused_by_name(packages, accelerator, strategy) -> None:
    for create in (packages.trainer, packages.run_with):
        with pytest.raises(ValueError, match="not supported on the MPS accelerator"):
            create(accelerator=accelerator, strategy=strategy)


def test_parallel_strategies_are_refused_as_instances(packages) -> None:
    for create, side in ((packages.trainer, "pytorch"), (packages.run_with, "fabric")):
        ddp = packages.find(f"{side}.strategies", "DDPStrategy")()
        with pytest.raises(ValueError, match="not supported on the MPS accelerator"):
            create(accelerator="mps", strategy=ddp)


def test_order_of_automatic_selection(packages, monkeypatch) -> None:
    """TPU, MPS, CUDA, CPU, as they come to be absent."""
    found = {"tpu": True, "mps": True, "cuda": True}
    for name, kind in (("tpu", "xla.XLA"), ("mps", "mps.MPS"), ("cuda", "cuda.CUDA")):
        module, prefix = kind.split(".")
        accelerator = packages.find(f"fabric.accelerators.{module}", f"{prefix}Accelerator")
        monkeypatch.setattr(accelerator, "is_available", lambda name=name: found[name])
    choose_for_trainer = packages.find("fabric.utilities.device_parser", "_select_auto_accelerator")
    choose_for_fabric = packages.find("fabric.connector", "_Connector")._choose_auto_accelerator
    for first in ("tpu", "mps", "cuda", "cpu"):
        assert choose_for_trainer() == choose_for_fabric() == first
        found[first] = False


def test_disabled(packages, monkeypatch) -> None:
    monkeypatch.setenv("DISABLE_MPS", "1")
    assert what_it_takes(packages, accelerator="auto") == [CPU, CPU]
    said = "`MPSAccelerator` can not run on your system.*is available.*'cpu'"
    with pytest.raises(packages.misconfiguration, match=said):
        packages.trainer(accelerator="mps")
    with pytest.raises(RuntimeError, match=said):
        packages.run_with(accelerator="mps")


@pytest.mark.parametrize("value", ["0", "", "true", "yes", "2"])
def test_only_1_disables(packages, monkeypatch, value) -> None:
    monkeypatch.setenv("DISABLE_MPS", value)
    assert what_it_takes(packages, accelerator="auto") == [MPS, MPS]


@pytest.mark.parametrize("processor", ["i386", "x86_64", ""])
def test_another_processor_has_no_mps(packages, monkeypatch, processor) -> None:
    """Lightning#14634, #16124: under Rosetta it says i386. Lightning does not say why."""
    monkeypatch.setattr(platform, "processor", lambda: processor)
    assert what_it_takes(packages, accelerator="auto") == [CPU, CPU]
    with pytest.raises(packages.misconfiguration) as error:
        packages.trainer(accelerator="mps")
    assert "Rosetta" not in str(error.value)

    facts = Machine(
        arch="x86_64" if processor else "arm64",
        processor=processor,
        macos="15.1",
        torch="2.13.0",
        mps_built=True,
        mps_available=not processor,
        native="/site/mps_ds/_C.so",
        native_metal=True,
    )
    (found,) = diagnosis.diagnose(facts)
    assert found.name == ("rosetta" if processor else "processor-name")
    assert "arm64" in found.remedy if processor else "Lightning" in found.problem
    native = replace(facts, arch="arm64", processor="arm", mps_available=True)
    assert diagnosis.diagnose(native) == []


def warned_of(packages: Packages, accelerator: str) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        packages.trainer(accelerator=accelerator)
    return [str(warning.message) for warning in caught if "GPU available" in str(warning.message)]


def test_a_gpu_that_is_not_used(packages, monkeypatch) -> None:
    assert warned_of(packages, "mps") == []
    (said,) = warned_of(packages, "cpu")
    assert said.startswith("GPU available but not used.")
    assert "Trainer(accelerator='gpu')" in said


def test_no_gpu_is_available_when_it_is_disabled(packages, monkeypatch) -> None:
    monkeypatch.setenv("DISABLE_MPS", "1")
    assert warned_of(packages, "cpu") == []


def test_device_stats(packages) -> None:
    accelerator = packages.find("pytorch.accelerators", "MPSAccelerator")()
    stats = accelerator.get_device_stats(torch.device("mps", 0))
    assert set(stats) == {"M1_vm_percent", "M1_percent", "M1_swap_percent"}
    assert all(0 <= percent <= 100 for percent in stats.values())


def test_device_stats_without_psutil(packages, monkeypatch) -> None:
    """The callback that asks for them fails at the first batch; training without it works."""
    mps = importlib.import_module(f"{packages.pytorch}.accelerators.mps")
    absent = type(mps._PSUTIL_AVAILABLE)("psutil>999")
    monkeypatch.setattr(mps, "_PSUTIL_AVAILABLE", absent)
    with pytest.raises(ModuleNotFoundError, match="MPS device stats requires `psutil`"):
        mps.MPSAccelerator().get_device_stats(torch.device("mps", 0))


def test_the_self_test_explains_what_lightning_says(packages, monkeypatch) -> None:
    """`python -m mps_ds.selftest --explain`, given each message as it is raised."""

    def said(create: Callable[..., Any], **options: Any) -> str:
        try:
            create(**options)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        raise AssertionError(f"{options} raised nothing")

    mps = importlib.import_module(f"{packages.pytorch}.accelerators.mps")
    monkeypatch.setattr(mps, "_PSUTIL_AVAILABLE", False)
    messages = {
        warned_of(packages, "cpu")[0]: "GPU available but not used",
        said(mps.get_device_stats): "Fetching MPS device stats requires",
    }
    for create in (packages.trainer, packages.run_with):
        messages |= {
            said(create, accelerator="mps", devices=2): "You requested gpu",
            said(create, accelerator="mps", devices=0): "is not a valid input",
            said(create, accelerator="mps", strategy="ddp"): "strategies from the DDP family",
        }
    monkeypatch.setenv("DISABLE_MPS", "1")
    packages.find("fabric.accelerators.mps", "MPSAccelerator").is_available.cache_clear()
    for create in (packages.trainer, packages.run_with):
        messages |= {
            said(create, accelerator="mps"): "can not run on your system",
            said(create, accelerator="gpu"): "No supported gpu backend found",
        }
    for text, words in messages.items():
        (row,) = explain(text)
        assert words in row.words


# Prints what an operator that MPS lacks gives within a training step of Lightning.
TRAIN_WITH_A_MISSING_OPERATOR = """
import sys, torch, lightning.pytorch, pytorch_lightning
for packages in (lightning.pytorch, pytorch_lightning):
    class Model(packages.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)
        def training_step(self, batch, index):
            print("counted", batch.mode().values.device.type)
            return self.layer(batch).sum()
        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)
    trainer = packages.Trainer(
        accelerator="mps", max_steps=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False)
    data = torch.utils.data.DataLoader(torch.ones(2, 2))
    try:
        trainer.fit(Model(), data)
    except NotImplementedError as error:
        print("refused", error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("fallback", ["0", "1"])
def test_an_operator_that_mps_lacks(fallback: str) -> None:
    if not torch.backends.mps.is_available():
        pytest.skip("no mps device in this build")
    code = "import mps_ds\n" + TRAIN_WITH_A_MISSING_OPERATOR
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTORCH_ENABLE_MPS_FALLBACK": fallback, "MPS_DS_SOFT": "1"}
        | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stdout.splitlines() if line.startswith(("counted", "refused"))]
    if fallback == "1":
        assert said == ["counted mps"] * 2
        assert "will fall back to run on the CPU" in done.stderr
    else:
        assert len(said) == 2
        for line in said:
            assert line.startswith("refused The operator 'aten::mode'")
            assert "PYTORCH_ENABLE_MPS_FALLBACK=1" in line
