"""What a step under our plugins costs, from the end of backward to the scaler's update."""

from __future__ import annotations

import sys

import pytest
import straight
from straight import CLIPS, STEPS
from trainers import Manual, fit, module_class

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="counts of the software device")


class Costs:
    """Counts of the last step: after the closure, until the plugin is done."""

    def __init__(self, base):
        costs = self

        def optimizer_step(plugin, optimizer, model, closure, **kwargs):
            from mps_ds import softmps

            costs.count = softmps.count()

            def counted():
                result = closure()
                costs.count.__enter__()
                return result

            try:
                return base.optimizer_step(plugin, optimizer, model, counted, **kwargs)
            finally:
                costs.count.__exit__(None, None, None)

        self.plugin = type("Counted", (base,), {"optimizer_step": optimizer_step})

    @property
    def kernels(self):
        return {name: k["dispatches"] for name, k in self.count.kernels.items()}

    def waits_for_nothing(self):
        return (self.count.host_reads, self.count.waits) == (0, 0)


NORM_AND_STEP = {"norm_partials": 1, "norm_finish": 1, "adam": 1}
EXPECTED = {  # kernels; the norm's and Adam's read the gradients once each, and do not write them
    ("16-mixed", "no clipping"): NORM_AND_STEP,
    ("16-mixed", "norm"): NORM_AND_STEP,
    ("16-mixed", "value"): NORM_AND_STEP,
    ("bf16-mixed", "norm"): NORM_AND_STEP,
    ("bf16-mixed", "value"): {"adam": 1},
    ("32-true", "norm"): NORM_AND_STEP,
    ("32-true", "value"): {"adam": 1},
}


@pytest.mark.parametrize(("precision", "clip"), EXPECTED)
def test_a_folded_step(lit, pl, precision, clip):
    mixed = precision != "32-true"
    costs = Costs(lit.MixedPrecision if mixed else lit.Precision)
    plugin = costs.plugin(precision) if mixed else costs.plugin()
    fit(pl, module_class(pl)(), STEPS, plugins=[plugin], **CLIPS[clip])
    assert costs.kernels == EXPECTED[precision, clip]
    assert set(costs.count.ops) == (
        {"aten::_amp_update_scale_"} if precision[:2] == "16" else set()
    )
    assert costs.waits_for_nothing()
    assert costs.count.commits == 0


LIGHTNINGS = {  # what reads gradients beside Adam, and how often: there are two tensors
    ("16-mixed", "norm"): {
        "aten::_amp_foreach_non_finite_check_and_unscale_": 1,
        "aten::linalg_vector_norm": 2 + 1,  # and the norm of the norms
        "aten::mul_.Tensor": 2,
    },
    ("bf16-mixed", "norm"): {"aten::linalg_vector_norm": 2 + 1, "aten::mul_.Tensor": 2},
    ("bf16-mixed", "value"): {"aten::clamp_": 2},
}


@pytest.mark.parametrize(("precision", "clip"), LIGHTNINGS)
def test_lightnings_own_step(lit, pl, precision, clip):
    """Else the counts above would show nothing. What docs/lightning.md compares with."""
    costs = Costs(lit.MixedPrecision)
    plugins = [costs.plugin(precision, fold="never")]
    fit(pl, module_class(pl)(), STEPS, plugins=plugins, **CLIPS[clip])
    gradients = 4 * straight.ELEMENTS
    large = {name: op.calls for name, op in costs.count.ops.items() if op.bytes_in >= gradients}
    assert large == LIGHTNINGS[precision, clip]
    assert costs.kernels == {"adam": 1}
    assert costs.count.host_reads == (precision == "16-mixed")


def test_a_step_that_hooks_look_at_waits_for_nothing_either(lit, pl):
    costs = Costs(lit.MixedPrecision)
    module = module_class(pl, on_before_optimizer_step=lambda *_: None)()
    fit(pl, module, STEPS, plugins=[costs.plugin("16-mixed")], **CLIPS["norm"])
    assert costs.kernels == {"adam": 1}
    assert "aten::_amp_foreach_non_finite_check_and_unscale_" in costs.count.ops
    assert costs.waits_for_nothing()


def test_manual_optimization_waits_for_nothing(lit, pl):
    costs = Costs(lit.MixedPrecision)
    Manual(pl, costs.plugin("16-mixed"), with_closure=True)
    assert costs.waits_for_nothing()
