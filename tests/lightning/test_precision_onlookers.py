"""Whoever may look at gradients sees, under our plugin, what Lightning's own shows, bit for bit."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest
import straight
import torch
from straight import CLIPS, STEPS, assert_same
from trainers import Manual, fit, gradients, module_class, plugin, torch_adamw

from mps_ds.lightning._onlookers import onlookers
from mps_ds.optim import FusedAdam

SEEN_BY_MODULE = (
    "configure_gradient_clipping",
    "on_before_optimizer_step",
    "on_before_zero_grad",
    "on_train_batch_end",
    "optimizer_step",
    "optimizer_zero_grad",
)
SEEN_BY_CALLBACK = ("on_before_optimizer_step", "on_before_zero_grad", "on_train_batch_end")


def looking(pl, hook, seen):
    """A hook of a LightningModule that keeps a copy of the gradients, then does what it should."""
    stock = getattr(pl.LightningModule, hook)

    def look(module, *args, **kwargs):
        if hook == "optimizer_step":
            stock(module, *args, **kwargs)
            seen.append(gradients(module))
        else:
            seen.append(gradients(module))
            stock(module, *args, **kwargs)

    return look


def run(lit, pl, module, fold, callbacks=(), **options):
    ours = plugin(lit, "16-mixed", fold=fold)
    fit(pl, module, STEPS, plugins=[ours], callbacks=list(callbacks), **CLIPS["norm"], **options)
    return straight.params_of(module)


def same(seen, expected):
    assert any(grads for grads in expected)
    assert len(seen) == len(expected)
    for grads, others in zip(seen, expected, strict=True):
        assert_same(grads, others)


@pytest.mark.parametrize("hook", SEEN_BY_MODULE)
def test_a_hook_of_the_module(lit, pl, hook):
    seen = {"never": [], "auto": []}
    params = [
        run(lit, pl, module_class(pl, **{hook: looking(pl, hook, seen[fold])})(), fold)
        for fold in seen
    ]
    same(seen["auto"], seen["never"])
    assert_same(*params)


@pytest.mark.parametrize("hook", SEEN_BY_CALLBACK)
def test_a_hook_of_a_callback(lit, pl, hook):
    seen = {"never": [], "auto": []}
    params = []
    for fold, grads in seen.items():

        def look(self, trainer, module, *args, grads=grads):
            grads.append(gradients(module))

        callback = type("Looks", (pl.Callback,), {hook: look})()
        params.append(run(lit, pl, module_class(pl)(), fold, [callback]))
    same(seen["auto"], seen["never"])
    assert_same(*params)


def test_a_function_given_to_a_lambda_callback(lit, pl):
    seen = {"never": [], "auto": []}
    for fold, grads in seen.items():
        callback = pl.callbacks.LambdaCallback(
            on_before_optimizer_step=lambda _, module, __, g=grads: g.append(gradients(module))
        )
        run(lit, pl, module_class(pl)(), fold, [callback])
    same(seen["auto"], seen["never"])


def test_a_hook_that_clips_in_its_own_way(lit, pl):
    def configure_gradient_clipping(module, optimizer, gradient_clip_val, gradient_clip_algorithm):
        torch.nn.utils.clip_grad_value_(module.parameters(), 0.2)
        module.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)

    clips = {"configure_gradient_clipping": configure_gradient_clipping}
    params = [run(lit, pl, module_class(pl, **clips)(), f) for f in ("never", "auto", "always")]
    assert_same(params[0], params[1])
    assert_same(params[0], params[2])


def test_a_plugin_of_ones_own_that_clips_in_its_own_way(lit, pl):
    called = []

    def clip_grad_by_norm(plugin, optimizer, clip_val):
        called.append(clip_val)

    own = type("Own", (lit.MixedPrecision,), {"clip_grad_by_norm": clip_grad_by_norm})
    fit(pl, module_class(pl)(), STEPS, plugins=[own("16-mixed")], **CLIPS["norm"])
    assert called == [CLIPS["norm"]["gradient_clip_val"]] * STEPS


def test_fold_always_shows_hooks_what_backward_left(lit, pl):
    seen = []
    hook = {"on_before_optimizer_step": looking(pl, "on_before_optimizer_step", seen)}
    run(lit, pl, module_class(pl, **hook)(), "always")
    layer = straight.model()
    straight.loss_of(layer, straight.batches(STEPS)[: straight.BATCH]).backward()
    assert_same(seen[0], [p.grad * 2.0**16 for p in layer.parameters()])


@pytest.mark.parametrize("with_closure", [False, True])
def test_manual_optimization(lit, pl, with_closure):
    stock, ours, folded = (
        Manual(pl, plugin(lit, "16-mixed", fold=fold), with_closure)
        for fold in ("never", "auto", "always")
    )
    same(ours.seen, stock.seen)
    assert_same(ours.params, stock.params)
    assert_same(folded.params, stock.params)
    same(folded.seen, [[2.0**16 * g for g in grads] for grads in stock.seen])


def with_step_hook(params):
    optimizer = FusedAdam(params, lr=straight.LR)
    optimizer.register_step_pre_hook(lambda *_: None)
    return optimizer


class OwnStep(FusedAdam):
    def step(self, closure=None, **kwargs):
        assert "scaler" not in kwargs
        return super().step(closure, **kwargs)


@pytest.mark.parametrize(
    ("make_optimizer", "why"),
    [
        (torch_adamw, "the optimizer is AdamW, not mps_ds.optim.FusedAdam"),
        (with_step_hook, "the optimizer has step hooks"),
        (lambda params: OwnStep(params, lr=straight.LR), "OwnStep overrides FusedAdam.step"),
    ],
)
def test_other_optimizers_take_lightnings_own_step(lit, pl, told, make_optimizer, why):
    params = []
    for fold in ("never", "auto"):
        params.append(run(lit, pl, module_class(pl)(make_optimizer), fold))
        assert len(told()) == (fold == "auto")  # once, not at every step
    assert told()[0].startswith(f"mps_ds: Lightning's own step is taken: {why}")
    assert_same(*params)


def test_what_makes_the_plugin_write_gradients_is_told(lit, pl, told):
    hook = {"on_before_zero_grad": lambda *_: None}
    run(lit, pl, module_class(pl, **hook)(), "auto")
    assert told() == [
        "mps_ds: gradients are unscaled and clipped before the step, for "
        "Straight.on_before_zero_grad"
    ]


def test_lightnings_own_callbacks_are_no_onlookers(lit, pl):
    """None of them looks at gradients, so the progress bar does not keep steps from folding."""
    names = [name for name in pl.callbacks.__all__ if name != "LambdaCallback"]
    callbacks = [getattr(pl.callbacks, name) for name in names] + [lit.DeviceStats]
    assert any("on_train_batch_end" in vars(callback) for callback in callbacks)
    trusted = lit.Precision()._trusted()
    assert list(onlookers(module_class(pl)(), callbacks, trusted)) == []
    for path in Path(pl.callbacks.__file__).parent.rglob("*.py"):
        assert not re.search(r"\.grad\b", path.read_text()), path


class Scaler(torch.amp.GradScaler):
    """Halves what it unscales: a scaler of one's own is asked, not looked into."""

    def unscale_(self, optimizer):
        super().unscale_(optimizer)
        for group in optimizer.param_groups:
            for param in group["params"]:
                param.grad /= 2


def test_a_scaler_of_ones_own_is_asked(lit, pl, told):
    module = module_class(pl)()
    ours = plugin(lit, "16-mixed", scaler=Scaler("mps"))
    seen = []

    def look(self, trainer, module, *args):
        seen.append(gradients(module))

    callback = type("Looks", (pl.Callback,), {"on_before_optimizer_step": look})()
    fit(pl, module, 1, plugins=[ours], callbacks=[callback])
    layer = straight.model()
    straight.loss_of(layer, straight.batches(1)).backward()
    assert_same(seen[0], [p.grad / 2 for p in layer.parameters()])
    assert "Scaler overrides unscale_" in told()[0]


def test_wrapping_does_not_hide_a_hook(lit, pl):
    hook = "on_before_optimizer_step"
    stock = getattr(pl.LightningModule, hook)

    def own(module, optimizer):
        raise AssertionError

    own_looks_like_stock = functools.wraps(stock)(own)
    own_as_partial = functools.partial(own, None)
    for wrapped in (torch.no_grad()(own), own_looks_like_stock, own_as_partial):
        found = onlookers(module_class(pl, **{hook: wrapped})(), [], lit.Precision()._trusted())
        assert list(found) == [f"Straight.{hook}"]
    harmless = module_class(pl, **{hook: torch.no_grad()(stock)})()
    assert list(onlookers(harmless, [], lit.Precision()._trusted())) == []
