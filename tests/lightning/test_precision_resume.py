"""Training that is saved and resumed is training that was never broken off, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
import straight
import torch
from straight import CLIPS, UNITS, assert_same
from trainers import QUIET, adam, fit, losses, module_class, plain_adam, plugin, scaler_of

STEPS = 4  # an epoch


def choice(lit: Any, precision: str, ours: bool) -> dict[str, Any]:
    return {"plugins": [plugin(lit, precision)]} if ours else {"precision": precision}


@pytest.mark.parametrize("ours", [False, True], ids=["stock", "plugin"])
@pytest.mark.parametrize("make_optimizer", [plain_adam, adam])
@pytest.mark.parametrize("precision", UNITS)
def test_resumed_is_unbroken(lit, pl, tmp_path, precision, make_optimizer, ours):
    unbroken, first, second = (module_class(pl)(make_optimizer) for _ in range(3))
    whole = fit(pl, unbroken, STEPS, max_epochs=2, **CLIPS["norm"], **choice(lit, precision, ours))
    half = fit(pl, first, STEPS, **CLIPS["norm"], **choice(lit, precision, ours))
    path = tmp_path / "half.ckpt"
    half.save_checkpoint(path)
    options = {**CLIPS["norm"], **choice(lit, precision, ours)}
    resumed = fit(pl, second, STEPS, max_epochs=2, ckpt_path=path, **options)
    assert resumed.global_step == whole.global_step == 2 * STEPS
    assert losses(first) + losses(second) == losses(unbroken)
    assert_same(straight.params_of(second), straight.params_of(unbroken))
    assert scaler_of(resumed) == scaler_of(whole)
    states = [trainer.optimizers[0].state_dict()["state"] for trainer in (whole, resumed)]
    for key in ("step", "exp_avg", "exp_avg_sq"):
        assert_same(*([s[key].cpu() for s in state.values()] for state in states))


@pytest.mark.parametrize("ours_first", [False, True], ids=["stock first", "plugin first"])
def test_lightnings_plugin_and_ours_read_each_others_checkpoints(lit, pl, tmp_path, ours_first):
    """Clipping by value, where the two are equal bit for bit; and a scale that has moved."""
    path = tmp_path / "half.ckpt"
    unbroken, first, second = (module_class(pl)() for _ in range(3))
    base = {**QUIET, **CLIPS["value"]}
    del base["devices"]

    def mixed(ours: bool) -> Any:
        scaler = torch.amp.GradScaler("mps", init_scale=2.0**10, growth_interval=3)
        return lit.MixedPrecision("16-mixed", scaler=scaler, fold="auto" if ours else "never")

    whole = fit(pl, unbroken, STEPS, max_epochs=2, plugins=[mixed(True)], **base)
    fit(pl, first, STEPS, plugins=[mixed(ours_first)], **base).save_checkpoint(path)
    # The scaler's own state is not that of the checkpoint, so it shows whether that was read.
    other: dict[str, Any] = (
        {"precision": "16-mixed"} if ours_first else choice(lit, "16-mixed", True)
    )
    resumed = fit(pl, second, STEPS, max_epochs=2, ckpt_path=path, **other, **base)
    assert scaler_of(resumed)["scale"] == scaler_of(whole)["scale"] == 2.0**12
    assert scaler_of(resumed) == scaler_of(whole)
    assert_same(straight.params_of(second), straight.params_of(unbroken))
