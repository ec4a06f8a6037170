"""Both distributions of Lightning, and what happens where one or both are missing."""

from __future__ import annotations

import importlib
import inspect
import pickle
import sys
import warnings

import pytest

import mps_ds
import mps_ds.lightning
from mps_ds.lightning import _family
from mps_ds.selftest.explain import explain

TRAINERS = ("Precision", "HalfPrecision", "MixedPrecision")


def test_classes_are_of_their_distribution(lit, pl, fabric):
    for name in TRAINERS:
        assert issubclass(getattr(lit, name), getattr(pl.plugins.precision, name))
        ours = getattr(lit, f"Fabric{name}")
        assert issubclass(ours, getattr(fabric.plugins.precision, name))
        assert getattr(lit, name).__qualname__ == name  # the key in checkpoints
        assert inspect.getdoc(getattr(lit, name)).startswith("`")
    assert mps_ds.lightning.family(lit.name) is lit


def test_objects_can_be_pickled(lit):
    for name in ("MixedPrecision", "FabricMixedPrecision"):
        plugin = getattr(lit, name)("bf16-mixed")
        assert type(pickle.loads(pickle.dumps(plugin))) is type(plugin)
    for name in ("ZeroStrategy", "FabricZeroStrategy", "DeviceStats", "Precision"):
        assert pickle.loads(pickle.dumps(getattr(lit, name))) is getattr(lit, name)


def test_the_other_distribution_has_a_module():
    from mps_ds.lightning import pytorch_lightning as module

    names = mps_ds.lightning.family("pytorch_lightning")
    assert module.MixedPrecision is names.MixedPrecision
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = module.Nothing


def test_a_version_that_was_not_tried_is_told_once(monkeypatch):
    family = _family.installed()[0]
    monkeypatch.setattr(importlib.import_module(family.fabric), "__version__", "2.7.0")
    _family.warn_of_version.cache_clear()
    try:
        with pytest.warns(
            UserWarning, match=rf"for Lightning 2\.6; this is {family.name} 2\.7\.0"
        ) as told:
            _family.warn_of_version(family)
        (row,) = explain(str(told[0].message))
        assert row.words == "mps_ds.lightning was written for Lightning 2.6"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            _family.warn_of_version(family)
    finally:
        _family.warn_of_version.cache_clear()


def test_the_distributions_do_not_mix(lit, pl):
    for family in _family.installed():
        if family.name == lit.name:
            continue
        other = mps_ds.lightning.family(family.name).MixedPrecision("bf16-mixed")
        with pytest.raises(Exception, match="Found invalid type for plugin"):
            pl.Trainer(accelerator="mps", plugins=[other], logger=False)


def test_names_of_the_module_are_those_of_the_default():
    default = mps_ds.lightning.family(_family.installed()[0].name)
    assert mps_ds.lightning.MixedPrecision is default.MixedPrecision
    for name in mps_ds.lightning.__all__:
        assert getattr(mps_ds.lightning, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = mps_ds.lightning.Nothing


def test_a_name_that_does_not_exist():
    with pytest.raises(ValueError, match="name is 'fabric'; accepted are 'lightning' and"):
        mps_ds.lightning.family("fabric")


def test_without_lightning_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(_family, "installed", lambda: ())
    install = r"pip install 'mps_ds\[lightning\]'"
    with pytest.raises(ImportError, match=f"neither lightning nor pytorch_lightning.*{install}"):
        _family.default()
    with pytest.raises(ImportError, match=f"pytorch_lightning is not installed.*{install}"):
        _family.get("pytorch_lightning")


def test_a_folder_of_that_name_is_not_lightning(monkeypatch, tmp_path):
    (tmp_path / "lightning_looks_like").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert not _family._has("lightning_looks_like")
    assert _family._has("torch")


def test_with_fabric_alone_there_is_no_trainer(monkeypatch):
    monkeypatch.setattr(_family, "_has", lambda package: package == "lightning_fabric")
    _family.installed.cache_clear()
    try:
        assert _family.installed() == (
            _family.Family("pytorch_lightning", None, "lightning_fabric"),
        )
    finally:
        _family.installed.cache_clear()


IMPORTS = """
import sys
{first}
import mps_ds
mps_ds.lightning
for name in ("lightning", "pytorch_lightning"):
    registry = sys.modules.get({{"lightning": "lightning.pytorch"}}.get(name, name) + ".strategies")
    if registry is not None and "mps_zero2" in registry.StrategyRegistry:
        print(name)
"""


@pytest.mark.slow
@pytest.mark.skipif(len(_family.installed()) < 2, reason="both distributions are needed")
@pytest.mark.parametrize(
    ("first", "registered"),
    [
        ("", ["lightning"]),
        ("import pytorch_lightning", ["pytorch_lightning"]),
        ("import pytorch_lightning, lightning", ["lightning", "pytorch_lightning"]),
    ],
)
def test_importing_registers_with_what_is_imported(first, registered):
    import subprocess

    code = IMPORTS.format(first=first)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == registered
