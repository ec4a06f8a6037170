"""A stock Trainer, without a plugin of ours, trains with FusedAdam."""

from __future__ import annotations

from functools import cache

import pytest
import straight
import torch
from straight import CLIPS, STEPS, UNITS
from trainers import fit, losses, module_class, plain_adam, torch_adamw

DTYPES = {"32-true": torch.float32, "16-mixed": torch.float16, "bf16-mixed": torch.bfloat16}


@pytest.fixture(scope="session")
def judge(pl):
    """Losses and params of torch's AdamW, in float32 on the CPU, by the Trainer of Lightning."""

    @cache
    def train(clip, accumulate):
        module = module_class(pl)(torch_adamw)
        options = {**CLIPS[clip], "accumulate_grad_batches": accumulate}
        fit(pl, module, STEPS, accelerator="cpu", **options)
        return losses(module), straight.params_of(module)

    return train


def check(module, judge, precision, clip, accumulate=1):
    expected_losses, expected_params = judge(clip, accumulate)
    clips_norm = clip == "norm"
    told = losses(module)
    assert len(told) == len(expected_losses) == STEPS
    bound = straight.loss_bound(STEPS, clips_norm, UNITS[precision])
    assert max(abs(a - b) for a, b in zip(told, expected_losses, strict=True)) <= bound
    difference = straight.largest_difference(straight.params_of(module), expected_params)
    assert difference <= straight.param_bound(STEPS, clips_norm)


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("precision", UNITS)
def test_it_trains_as_with_torchs_adamw_on_the_cpu(pl, judge, precision, clip):
    module = module_class(pl)(plain_adam)
    fit(pl, module, STEPS, precision=precision, **CLIPS[clip])
    assert module.ran_in == {("mps", DTYPES[precision])}
    check(module, judge, precision, clip)


def test_the_bound_tells_clipping_and_accumulation_apart(judge):
    """Else the tests above would pass whatever happened to gradients."""
    params = [judge(clip, 1)[1] for clip in CLIPS] + [judge("norm", 2)[1]]
    for i, some in enumerate(params):
        for others in params[:i]:
            apart = straight.largest_difference(some, others)
            assert apart > 2 * straight.param_bound(STEPS, clips_norm=True)


@pytest.mark.parametrize("precision", UNITS)
def test_it_accumulates(pl, judge, precision):
    module = module_class(pl)(plain_adam)
    options = {**CLIPS["norm"], "accumulate_grad_batches": 2}
    trainer = fit(pl, module, STEPS, precision=precision, **options)
    assert trainer.global_step == STEPS // 2
    check(module, judge, precision, "norm", accumulate=2)


@pytest.mark.parametrize("precision", ["32-true", "bf16-true"])
def test_it_takes_an_accelerator_instance(pl, precision):
    by_name, by_instance = module_class(pl)(), module_class(pl)()
    fit(pl, by_name, STEPS, precision=precision)
    accelerator = pl.accelerators.MPSAccelerator()
    fit(pl, by_instance, STEPS, accelerator=accelerator, precision=precision)
    assert by_instance.ran_in == by_name.ran_in
    assert losses(by_instance) == losses(by_name)


@pytest.mark.parametrize("precision", ["16-mixed", "bf16-mixed"])
@pytest.mark.filterwarnings("ignore")  # of CUDA, which Lightning takes the instance for
def test_with_an_accelerator_instance_lightning_does_not_mix_but_our_plugin_does(
    lit, pl, precision
):
    """docs/lightning.md warns of it. If the first half fails, Lightning has become better."""
    stock, ours = module_class(pl)(), module_class(pl)()
    accelerator = pl.accelerators.MPSAccelerator()
    fit(pl, stock, STEPS, accelerator=accelerator, precision=precision)
    assert stock.ran_in == {("mps", torch.float32)}
    fit(pl, ours, STEPS, accelerator=accelerator, plugins=[lit.MixedPrecision(precision)])
    assert ours.ran_in == {("mps", DTYPES[precision])}
