"""Hugging Face's Trainer with FusedAdam: what it hands over is stepped as AdamW would."""

from __future__ import annotations

import math
import sys

import pytest
import torch

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from step_judge import StepJudge
from tiny_trainer import LR, STEPS, Excerpts, Trainer, arguments, everything, logged, make_model

from mps_ds.optim import FusedAdam
from mps_ds.transformers import RandomStateCallback

pytestmark = pytest.mark.skipif(
    not torch.backends.mps.is_available(), reason="no mps device in this build"
)
QUICK = [("gpt2", "fp16"), ("llama", "bf16")]


def with_slow_ones(quick):
    cases = [(m, p) for m in ("gpt2", "llama", "bert") for p in ("fp32", "bf16", "fp16")]
    return [pytest.param(*c, marks=[] if c in quick else pytest.mark.slow) for c in cases]


@pytest.mark.parametrize(("model", "precision"), with_slow_ones(QUICK))
def test_every_step_is_adamw(model, precision, tmp_path) -> None:
    trainer = Trainer(
        make_model(model),
        arguments(tmp_path, precision),
        train_dataset=Excerpts(),
        optimizer_cls_and_kwargs=(FusedAdam, {"lr": LR}),
    )
    judge = StepJudge(trainer.create_optimizer())
    trainer.train()
    check(trainer, judge)
    assert [g["weight_decay"] for g in trainer.optimizer.param_groups] == [0.1, 0.0]


@pytest.mark.parametrize(
    ("model", "precision"),
    [("llama", "fp32"), pytest.param("bert", "fp16", marks=pytest.mark.slow)],
)
def test_an_optimizer_that_was_made_before_the_model_moved(model, precision, tmp_path) -> None:
    module = make_model(model)
    optimizer = FusedAdam(module.parameters(), lr=LR)
    judge = StepJudge(optimizer)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, LR, total_steps=STEPS + 1)
    trainer = Trainer(
        module,
        arguments(tmp_path, precision),
        train_dataset=Excerpts(),
        optimizers=(optimizer, scheduler),
    )
    trainer.train()
    assert next(iter(optimizer.state)).device.type == "mps"
    check(trainer, judge)


def check(trainer: Trainer, judge: StepJudge) -> None:
    assert judge.steps == STEPS
    assert judge.learning_rates == logged(trainer, "learning_rate")
    # Clipping came to bear, and the step saw what came of it. A sum of n squares may be off by
    # n half ulp, and its root by half of that.
    limit = trainer.args.max_grad_norm
    elements = sum(p.numel() for p in trainer.model.parameters())
    assert max(logged(trainer, "grad_norm")) > limit
    assert max(judge.norms) <= limit * (1 + elements * 2.0**-24)
    losses = logged(trainer, "loss")
    assert all(map(math.isfinite, losses))
    assert sum(losses[-3:]) < sum(losses[:3])


def fresh(folder, model, precision, seed, callbacks=(), optimizer=FusedAdam, **kwargs) -> Trainer:
    """A Trainer whose steps are saved at half of the way; `seed` is of the model."""
    return Trainer(
        make_model(model, seed),
        arguments(folder, precision, **kwargs),
        train_dataset=Excerpts(),
        optimizer_cls_and_kwargs=(optimizer, {"lr": LR}),
        callbacks=list(callbacks),
    )


SAVED = {"save_strategy": "steps", "save_steps": STEPS // 2}
RESTORED = {"restore_callback_states_from_checkpoint": True}


@pytest.mark.parametrize(("model", "precision"), with_slow_ones(QUICK[:1]))
def test_a_resumed_run_is_the_unbroken_one(model, precision, tmp_path) -> None:
    # transformers#24708, and pytorch#103256: the Trainer loads the optimizer to the CPU first.
    unbroken = fresh(tmp_path, model, precision, 0, [RandomStateCallback()], **SAVED)
    unbroken.train()
    resumed = fresh(tmp_path, model, precision, 1, [RandomStateCallback()], **SAVED, **RESTORED)
    resumed.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{STEPS // 2}"))
    for what in ("loss", "grad_norm", "learning_rate"):
        assert logged(resumed, what) == logged(unbroken, what)
    expected, told = everything(unbroken), everything(resumed)
    assert told.keys() == expected.keys()
    assert [name for name in told if not torch.equal(told[name], expected[name])] == []
    if precision == "fp16":
        scales = [t.accelerator.scaler.get_scale() for t in (unbroken, resumed)]
        assert scales[0] == scales[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "classes", [(torch.optim.AdamW, FusedAdam), (FusedAdam, torch.optim.AdamW)]
)
def test_a_checkpoint_of_the_other_optimizer_goes_on(classes, tmp_path) -> None:
    first, second = classes
    fresh(tmp_path, "llama", "bf16", 0, optimizer=first, **SAVED).train()
    resumed = fresh(tmp_path, "llama", "bf16", 1, optimizer=second, **SAVED)
    judge = StepJudge(resumed.create_optimizer()) if second is FusedAdam else None
    resumed.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{STEPS // 2}"))
    assert judge is None or judge.steps == STEPS - STEPS // 2
    assert {int(s["step"]) for s in resumed.optimizer.state.values()} == {STEPS}


@pytest.mark.slow
def test_without_the_callback_dropout_goes_its_own_way(tmp_path) -> None:
    # The Trainer's doing (5.24); where this fails, the callback has become unnecessary.
    unbroken = fresh(tmp_path, "gpt2", "fp32", 0, **SAVED)
    unbroken.train()
    resumed = fresh(tmp_path, "gpt2", "fp32", 1, **SAVED)
    resumed.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{STEPS // 2}"))
    assert logged(resumed, "loss") != logged(unbroken, "loss")


@pytest.mark.slow
def test_the_callback_warns_where_it_was_not_restored(tmp_path) -> None:
    fresh(tmp_path, "gpt2", "fp32", 0, [RandomStateCallback()], **SAVED).train()
    resumed = fresh(tmp_path, "gpt2", "fp32", 1, [RandomStateCallback()], **SAVED)
    with pytest.warns(UserWarning, match="restore_callback_states_from_checkpoint"):
        resumed.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{STEPS // 2}"))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "darwin", reason="the software device counts waits")
def test_the_filter_of_losses_waits_twice_for_each_batch(tmp_path) -> None:
    from mps_ds import softmps

    waits = []
    for filtering in (True, False):
        options = {"logging_nan_inf_filter": filtering, "max_steps": 4, "logging_steps": 100}
        trainer = fresh(tmp_path, "llama", "fp32", 0, **options)
        with softmps.count() as counted:
            trainer.train()
        waits.append(counted.waits)
    batches = 4 * trainer.args.gradient_accumulation_steps
    assert waits[0] - waits[1] == 2 * batches
