"""Fabric on mps with FusedAdam: as it comes, and with our plugins."""

from __future__ import annotations

import sys

import pytest
import straight
import torch
from straight import STEPS, UNITS, assert_same
from trainers import adam, plain_adam, torch_adamw

CLIPS = {
    "no clipping": {},
    "norm": {"max_norm": 0.5, "error_if_nonfinite": False},
    "value": {"clip_val": 0.25},
}
BOUNDS = {"no clipping": {}, "norm": {"max_norm": 0.5}, "value": {"clip_value": 0.25}}


class Run:
    """A training loop; what a step and its clipping cost on the software device, at the end."""

    def __init__(self, fabric, clip=None, make_optimizer=adam, accelerator="mps", **options):
        self.fabric = fabric.Fabric(accelerator=accelerator, devices=1, **options)
        module = straight.model()
        layer, optimizer = self.fabric.setup(module, make_optimizer(module.parameters()))
        self.optimizer = optimizer
        self.losses, self.outputs, self.grads = [], set(), []
        module.register_forward_hook(lambda *a: self.outputs.add((a[2].device.type, a[2].dtype)))
        for batch in self.fabric.setup_dataloaders(straight.loader(STEPS)):
            optimizer.zero_grad()
            loss = straight.loss_of(layer, batch)
            self.losses.append(loss.detach())
            self.fabric.backward(loss)
            with counting() as self.costs:
                if clip:
                    self.fabric.clip_gradients(layer, optimizer, **clip)
                optimizer.step()
            self.grads.append([p.grad.cpu() for p in module.parameters()])
        self.params = straight.params_of(module)
        self.losses = [float(loss) for loss in self.losses]


def counting():
    if sys.platform == "darwin":
        import contextlib

        return contextlib.nullcontext()
    from mps_ds import softmps

    return softmps.count()


def plugin(lit, precision, **options):
    if precision == "32-true":
        return lit.FabricPrecision(**options)
    return lit.FabricMixedPrecision(precision, **options)


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("precision", UNITS)
def test_as_it_comes_it_trains_as_with_torchs_adamw_on_the_cpu(fabric, precision, clip):
    judge = Run(fabric, CLIPS[clip], torch_adamw, accelerator="cpu")
    run = Run(fabric, CLIPS[clip], plain_adam, precision=precision)
    assert {device for device, _ in run.outputs} == {"mps"}
    norm = clip == "norm"
    bound = straight.loss_bound(STEPS, norm, UNITS[precision])
    assert max(abs(a - b) for a, b in zip(run.losses, judge.losses, strict=True)) <= bound
    bound = straight.param_bound(STEPS, norm)
    assert straight.largest_difference(run.params, judge.params) <= bound


@pytest.mark.filterwarnings("ignore")  # of CUDA, which Fabric takes an instance for
def test_an_accelerator_instance(lit, fabric):
    """As for the Trainer: it is fine in itself, but only our plugin mixes precision with it.

    docs/lightning.md warns of it. If the error is gone, Lightning has become better.
    """
    accelerator = fabric.accelerators.MPSAccelerator()
    assert Run(fabric, accelerator=accelerator).losses == Run(fabric).losses
    with pytest.raises(RuntimeError, match="must have the same dtype"):  # inputs, but not params
        Run(fabric, accelerator=accelerator, precision="bf16-mixed")
    ours = Run(fabric, accelerator=accelerator, plugins=[plugin(lit, "bf16-mixed")])
    assert ours.outputs == {("mps", torch.bfloat16)}


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("precision", UNITS)
def test_with_our_plugin_fabrics_clipping_is_what_it_was(lit, fabric, precision, clip):
    """Gradients included, where there is clipping: it unscales them in place."""
    stock = Run(fabric, CLIPS[clip], precision=precision)
    ours = Run(fabric, CLIPS[clip], plugins=[plugin(lit, precision)])
    assert ours.outputs == stock.outputs
    assert ours.losses == stock.losses
    assert_same(ours.params, stock.params)
    states = [run.fabric.strategy.precision.state_dict() for run in (ours, stock)]
    assert states[0] == states[1]
    scale = 1.0 if clip != "no clipping" else states[0].get("scale", 1.0)
    for grads, others in zip(ours.grads, stock.grads, strict=True):
        assert_same(grads, [scale * g for g in others])


@pytest.mark.parametrize("clip", ["norm", "value"])
@pytest.mark.parametrize("precision", UNITS)
def test_the_plugins_bounds_clip_within_the_step(lit, fabric, precision, clip):
    stock = Run(fabric, CLIPS[clip], precision=precision)
    ours = Run(fabric, plugins=[plugin(lit, precision, **BOUNDS[clip])])
    bound = straight.param_bound(STEPS, True) if clip == "norm" else 0.0
    assert straight.largest_difference(ours.params, stock.params) <= bound
    unclipped = Run(fabric, precision=precision)
    for grads, others in zip(ours.grads, unclipped.grads, strict=True):
        scale = 2.0**16 if precision == "16-mixed" else 1.0
        assert_same(grads, [scale * g for g in others])
    if clip == "norm":
        exact = torch.nn.utils.get_total_norm(unclipped.grads[-1]).item()
        told = ours.optimizer.grad_norm.item()
        assert told == pytest.approx(exact, rel=(straight.ELEMENTS + 4) * straight.U)


@pytest.mark.skipif(sys.platform == "darwin", reason="counts of the software device")
@pytest.mark.parametrize("clip", CLIPS)
def test_a_step_waits_for_nothing(lit, fabric, clip):
    assert Run(fabric, CLIPS[clip], precision="16-mixed").costs.host_reads == 1
    for run in (
        Run(fabric, CLIPS[clip], plugins=[plugin(lit, "16-mixed")]),
        Run(fabric, plugins=[plugin(lit, "16-mixed", **BOUNDS[clip])]),
    ):
        assert (run.costs.host_reads, run.costs.waits) == (0, 0)
    kernels = {name: kernel["dispatches"] for name, kernel in run.costs.kernels.items()}
    assert kernels == {"norm_partials": 1, "norm_finish": 1, "adam": 1}
    assert set(run.costs.ops) == {"aten::_amp_update_scale_"}


def test_other_optimizers(lit, fabric):
    runs = [
        Run(fabric, make_optimizer=torch_adamw, **choice)
        for choice in ({"precision": "16-mixed"}, {"plugins": [plugin(lit, "16-mixed")]})
    ]
    assert_same(runs[0].params, runs[1].params)
    why = "max_norm: gradients are clipped within a step, but the optimizer is AdamW, not mps_ds"
    with pytest.raises(TypeError, match=why):
        Run(fabric, make_optimizer=torch_adamw, plugins=[plugin(lit, "16-mixed", max_norm=1.0)])


def test_fabrics_clipping_raises_on_an_overflow_unless_told_not_to(lit, fabric):
    """That is Fabric's default, with our plugin as with its own."""
    for choice in ({"precision": "16-mixed"}, {"plugins": [plugin(lit, "16-mixed")]}):
        setup = fabric.Fabric(accelerator="mps", devices=1, **choice)
        module = straight.model()
        layer, optimizer = setup.setup(module, adam(module.parameters()))
        before = straight.params_of(module)
        setup.backward(straight.loss_of(layer, setup.to_device(1e4 * straight.batches(1))))
        with pytest.raises(RuntimeError, match="is non-finite"):
            setup.clip_gradients(layer, optimizer, max_norm=1.0)
        optimizer.step()
        assert_same(straight.params_of(module), before)


def test_half_precision(lit, fabric):
    plugins = (lit.FabricHalfPrecision("bf16-true"),)
    stock, ours = Run(fabric, precision="bf16-true"), Run(fabric, plugins=plugins)
    assert ours.outputs == stock.outputs
    assert_same(ours.params, stock.params)


def test_saved_and_loaded(lit, fabric, tmp_path):
    """The scaler's state is the plugin's: it is saved where the user puts the plugin."""
    path = tmp_path / "half.ckpt"

    def start(**scaler_options):
        scaler = torch.amp.GradScaler("mps", growth_interval=3, **scaler_options)
        mixed = lit.FabricMixedPrecision("16-mixed", scaler=scaler, max_norm=0.5)
        setup = fabric.Fabric(accelerator="mps", devices=1, plugins=[mixed])
        module = straight.model()
        layer, optimizer = setup.setup(module, plain_adam(module.parameters()))
        return setup, {"model": layer, "optimizer": optimizer, "precision": mixed}

    def train(setup, state, steps):
        for index in steps:
            batch = straight.batches(8)[index * straight.BATCH :][: straight.BATCH]
            state["optimizer"].zero_grad()
            setup.backward(straight.loss_of(state["model"], setup.to_device(batch)))
            state["optimizer"].step()

    setup, unbroken = start(init_scale=2.0**8)
    train(setup, unbroken, range(8))
    setup, first = start(init_scale=2.0**8)
    train(setup, first, range(4))
    setup.save(path, first)
    setup, second = start()
    setup.load(path, second)
    train(setup, second, range(4, 8))
    assert second["precision"].state_dict() == unbroken["precision"].state_dict()
    assert second["precision"].state_dict()["scale"] == 2.0**10
    assert_same(*(straight.params_of(s["model"]) for s in (second, unbroken)))


def test_bad_arguments(lit):
    with pytest.raises(ValueError, match=r"max_norm is -1.0; it must be >= 0"):
        lit.FabricPrecision(max_norm=-1)
    with pytest.raises(ValueError, match=r"clip_value is nan; it must be >= 0"):
        lit.FabricMixedPrecision("bf16-mixed", clip_value=float("nan"))
