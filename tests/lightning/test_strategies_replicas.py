"""`mps_replicas` in one process is training without it; test_strategies_two_processes has two."""

from __future__ import annotations

import pytest
import torch
import zero_training
from zero_training import data, losses, module, trainer

pytestmark = pytest.mark.skipif(not torch.backends.mps.is_available(), reason="no mps device")


@pytest.fixture(autouse=True, scope="module")
def _as_before():
    import mps_ds.distributed

    enabled = mps_ds.distributed.is_enabled()
    yield
    zero_training.leave_process_group()
    if not enabled:
        mps_ds.distributed.disable()


@pytest.mark.parametrize("precision", ["32-true", "16-mixed", "bf16-mixed"])
def test_losses_are_those_of_a_plain_trainer(pl, precision) -> None:
    options = {"precision": precision, "gradient_clip_val": 1.0, "accumulate_grad_batches": 2}
    plain, replica = module(pl), module(pl)
    trainer(pl, "auto", **options).fit(plain, data())
    trainer(pl, "mps_replicas", **options).fit(replica, data())
    assert losses(replica) == losses(plain)


def test_our_precision_plugins_work_with_it(lit, pl) -> None:
    plain, replica = module(pl), module(pl)
    for strategy, told in (("auto", plain), ("mps_replicas", replica)):
        plugin = lit.MixedPrecision("16-mixed")
        trainer(pl, strategy, plugins=[plugin], gradient_clip_val=1.0).fit(told, data())
    assert losses(replica) == losses(plain)


def test_a_checkpoint_is_a_plain_trainers(pl, tmp_path) -> None:
    replica = trainer(pl, "mps_replicas")
    replica.fit(module(pl), data())
    replica.save_checkpoint(tmp_path / "end.ckpt")
    resumed, unbroken = module(pl), module(pl)
    trainer(pl, "auto", max_epochs=2).fit(resumed, data(), ckpt_path=tmp_path / "end.ckpt")
    trainer(pl, "auto", max_epochs=2).fit(unbroken, data())
    assert losses(resumed) == losses(unbroken)[len(losses(resumed)) :]
    assert losses(resumed)
