"""Training with our plugins is training with Lightning's own, folded or not."""

from __future__ import annotations

import math

import pytest
import straight
import torch
from straight import CLIPS, STEPS, UNITS, assert_same
from trainers import adam, fit, losses, module_class, plugin, scaler_of

from mps_ds.optim import FusedAdam


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("precision", UNITS)
def test_it_trains_as_lightnings_own(lit, pl, precision, clip, accumulate):
    """Scales are powers of two: without clipping by norm, every bit is the same."""
    modules, states = [], []
    for choice in ({"precision": precision}, {"plugins": [plugin(lit, precision)]}):
        module = module_class(pl)()
        options = {**CLIPS[clip], **choice, "accumulate_grad_batches": accumulate}
        states.append(scaler_of(fit(pl, module, STEPS, **options)))
        modules.append(module)
    assert modules[0].ran_in == modules[1].ran_in
    assert states[0] == states[1]
    told, expected = losses(modules[1]), losses(modules[0])
    params = [straight.params_of(module) for module in modules]
    if clip == "norm":
        bound = straight.loss_bound(STEPS, True, UNITS[precision])
        assert max(abs(a - b) for a, b in zip(told, expected, strict=True)) <= bound
        assert straight.largest_difference(*params) <= straight.param_bound(STEPS, True)
    else:
        assert told == expected
        assert_same(*params)


def test_the_gradients_are_not_written(lit, pl):
    """What backward left is there after the step: the scaled gradients, which are exact."""
    left = {}

    class Looks(pl.Callback):
        def on_train_epoch_end(self, trainer, module):  # not one that makes the plugin write them
            left["grads"] = [p.grad.cpu() for p in module.parameters()]
            left["scale"] = trainer.precision_plugin.scaler.get_scale()
            left["norm"] = trainer.optimizers[0].grad_norm.item()

    module = module_class(pl)()
    options = {"plugins": [plugin(lit, "16-mixed")], "callbacks": [Looks()], **CLIPS["norm"]}
    fit(pl, module, STEPS, **options)
    layer = straight.model()
    straight.loss_of(layer, straight.batches(STEPS)[-straight.BATCH :]).backward()
    expected = [p.grad * left["scale"] for p in layer.parameters()]
    assert_same(left["grads"], expected)
    norm = torch.nn.utils.get_total_norm([p.grad for p in layer.parameters()]).item()
    assert left["norm"] == pytest.approx(norm, rel=(straight.ELEMENTS + 4) * straight.U)
    assert norm > CLIPS["norm"]["gradient_clip_val"]


class Overflows:
    """Batches of which some overflow, and the scales that a Trainer goes through over them."""

    BAD = (0, 3, 4)
    STEPS = 10

    def __init__(self, pl, lit, **options):
        scales = self.scales = []

        def on_train_batch_start(module, batch, index):
            if index in self.BAD:
                batch[0, 0] = math.inf
            scales.append(module.trainer.precision_plugin.scaler.get_scale())

        scaler = torch.amp.GradScaler("mps", init_scale=2.0**12, growth_interval=2)
        self.module = module_class(pl, on_train_batch_start=on_train_batch_start)()
        mixed = lit.MixedPrecision("16-mixed", scaler=scaler, fold=options.pop("fold"))
        self.trainer = fit(pl, self.module, self.STEPS, plugins=[mixed], **options)


@pytest.mark.parametrize("clip", CLIPS)
def test_overflows_skip_the_same_steps_and_leave_the_same_scales(lit, pl, clip):
    stock = Overflows(pl, lit, fold="never", **CLIPS[clip])
    ours = Overflows(pl, lit, fold="auto", **CLIPS[clip])
    assert ours.scales == stock.scales
    assert scaler_of(ours.trainer) == scaler_of(stock.trainer)
    falls = [i for i, (a, b) in enumerate(zip(ours.scales, ours.scales[1:])) if b < a]  # noqa: B905
    assert tuple(falls) == Overflows.BAD
    for run in (stock, ours):
        counts = {float(s["step"]) for s in run.trainer.optimizers[0].state.values()}
        assert counts == {Overflows.STEPS - len(Overflows.BAD)}
    params = [straight.params_of(run.module) for run in (stock, ours)]
    bound = straight.param_bound(Overflows.STEPS, True) if clip == "norm" else 0.0
    assert straight.largest_difference(*params) <= bound


@pytest.mark.parametrize("precision", UNITS)
def test_a_training_step_that_returns_none(lit, pl, precision):
    """In the second of two batches: Lightning steps with the first's gradients, or not at all."""
    results = []
    for choice in ({"precision": precision}, {"plugins": [plugin(lit, precision)]}):
        base = module_class(pl)

        def training_step(module, batch, index, base=base):
            return None if index == 3 else base.training_step(module, batch, index)

        module = type("Sometimes", (base,), {"training_step": training_step})()
        trainer = fit(pl, module, STEPS, **CLIPS["value"], **choice, accumulate_grad_batches=2)
        counts = {float(s["step"]) for s in trainer.optimizers[0].state.values()}
        results.append((losses(module), counts, scaler_of(trainer), straight.params_of(module)))
    (*expected, params), (*told, others) = results
    assert told == expected
    assert_same(params, others)


def test_schedulers_see_the_same_steps(lit, pl):
    def configure_optimizers(module):
        optimizer = adam(module.parameters())
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]

    runs = []
    for fold in ("never", "auto"):
        module = module_class(pl, configure_optimizers=configure_optimizers)()
        trainer = fit(pl, module, STEPS, plugins=[plugin(lit, "16-mixed", fold=fold)])
        runs.append((trainer.optimizers[0].param_groups[0]["lr"], straight.params_of(module)))
    (lr, params), (told, others) = runs
    assert told == lr == straight.LR / 8
    assert_same(params, others)


def test_two_optimizers_in_turn(lit, pl):
    """Manual optimization: each has a state of its own in the scaler, until its update."""

    def training_step(module, batch, index):
        for optimizer in module.optimizers():
            loss = straight.loss_of(module.layer, batch)
            optimizer.zero_grad()
            module.manual_backward(loss)
            optimizer.step()

    def configure_optimizers(module):
        return [adam([module.layer.weight]), adam([module.layer.bias])]

    methods = {"training_step": training_step, "configure_optimizers": configure_optimizers}
    runs = []
    for fold in ("never", "auto", "always"):
        module = type("Two", (module_class(pl),), methods)()
        module.automatic_optimization = False
        scaler = torch.amp.GradScaler("mps", init_scale=2.0**20, growth_interval=3)
        mixed = lit.MixedPrecision("16-mixed", scaler=scaler, fold=fold)
        trainer = fit(pl, module, STEPS, plugins=[mixed])
        runs.append((scaler_of(trainer), straight.params_of(module)))
    for state, params in runs[1:]:
        assert state == runs[0][0]
        assert_same(params, runs[0][1])


def test_an_optimizer_that_handles_scaling_may_be_clipped(lit, pl):
    """Lightning's plugin refuses that; ours has no use for the flag."""

    def handles(params):
        return FusedAdam(params, lr=straight.LR, capturable=True, step_supports_amp_scaling=True)

    with pytest.raises(RuntimeError, match="does not allow for gradient clipping"):
        fit(pl, module_class(pl)(handles), STEPS, precision="16-mixed", **CLIPS["norm"])
    modules = [module_class(pl)(make) for make in (adam, handles)]
    for module in modules:
        fit(pl, module, STEPS, plugins=[plugin(lit, "16-mixed")], **CLIPS["norm"])
    assert_same(*map(straight.params_of, modules))


@pytest.mark.parametrize("precision", ["bf16-mixed", "32-true"])
def test_it_trains_on_the_cpu_too(lit, pl, precision):
    modules = []
    options = {"device": "cpu"} if precision == "bf16-mixed" else {}
    for choice in ({"precision": precision}, {"plugins": [plugin(lit, precision, **options)]}):
        module = module_class(pl)()
        fit(pl, module, STEPS, accelerator="cpu", **CLIPS["value"], **choice)
        modules.append(module)
    assert modules[0].ran_in == modules[1].ran_in
    assert {device for device, _ in modules[1].ran_in} == {"cpu"}
    assert_same(*map(straight.params_of, modules))


@pytest.mark.parametrize("precision", ["16-true", "bf16-true"])
def test_half_precision(lit, pl, precision):
    """Clipping by value in 16 bits: the bound is one of these, so that both ways are exact."""
    modules = []
    for choice in ({"precision": precision}, {"plugins": [lit.HalfPrecision(precision)]}):
        module = module_class(pl)()
        fit(pl, module, STEPS, **choice, **CLIPS["value"])
        modules.append(module)
    assert modules[0].ran_in == modules[1].ran_in
    assert_same(*map(straight.params_of, modules))


def test_bad_arguments(lit):
    with pytest.raises(ValueError, match="fold is 'sometimes'; accepted are 'auto', 'always'"):
        lit.Precision(fold="sometimes")
    with pytest.raises(ValueError, match="Precision must be '16-mixed' or 'bf16-mixed'"):
        lit.MixedPrecision("32-true")


def test_another_device_than_the_plugins_is_told(lit, pl):
    """Autocast for mps does nothing on the CPU: training would go on in float32, unsaid."""
    with pytest.raises(RuntimeError, match="MixedPrecision is for mps, and the module is on cpu"):
        fit(pl, module_class(pl)(), accelerator="cpu", plugins=[lit.MixedPrecision("bf16-mixed")])
    module = module_class(pl)()
    here = lit.MixedPrecision("bf16-mixed", device="cpu")
    fit(pl, module, accelerator="cpu", plugins=[here])
    assert module.ran_in == {("cpu", torch.bfloat16)}


@pytest.mark.parametrize("name", ["HalfPrecision", "FabricHalfPrecision"])
def test_a_half_precision_that_there_is_not(lit, name):
    with pytest.raises(ValueError, match="precision is '32-true'; accepted are 'bf16-true', '16-"):
        getattr(lit, name)("32-true")
