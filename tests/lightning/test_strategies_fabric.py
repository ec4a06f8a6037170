"""ZeRO strategies with Fabric: losses, clipping by DeepSpeed's configuration, resume."""

from __future__ import annotations

import pytest
import torch
import zero_training
from zero_training import NAMES, STEPS, data

pytest.importorskip("deepspeed.runtime")
pytestmark = pytest.mark.skipif(not torch.backends.mps.is_available(), reason="no mps device")

HALF = STEPS // 2
ALL = list(data())
RESUMED_QUICKLY = ("mps_zero2", "bf16-mixed")


@pytest.fixture(autouse=True, scope="module")
def _switch_deepspeed_off():
    yield
    zero_training.switch_deepspeed_off()


class Run:
    """A model and its optimizer, set up by Fabric."""

    def __init__(self, fabric, strategy: str, precision: str = "32-true") -> None:
        self.fabric = fabric.Fabric(
            accelerator="mps", devices=1, strategy=strategy, precision=precision
        )
        self.fabric.launch()
        network = zero_training.network()
        optimizer, _ = zero_training.optimizer_of(network.parameters())
        self.model, self.optimizer = self.fabric.setup(network, optimizer)
        self.steps = 0

    def train(self, batches: list[torch.Tensor]) -> list[float]:
        losses = []
        for batch in batches:
            loss = zero_training.loss_of(self.model, batch.to(self.fabric.device))
            losses.append(loss.item())
            self.fabric.backward(loss)
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.steps += 1
        return losses

    def state(self) -> dict:
        return {"model": self.model, "optimizer": self.optimizer, "steps": self.steps}

    def close(self) -> None:
        """Fabric has no end; this is DeepSpeed's."""
        engine = self.model._forward_module
        engine.destroy()


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n == "mps_zero1" else pytest.mark.slow) for n in NAMES]
)
def test_losses_are_those_of_a_plain_fabric(fabric, name) -> None:
    run = Run(fabric, name)
    told = run.train(ALL)
    run.close()
    assert told == Run(fabric, "auto").train(ALL)


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        pytest.param(
            name, precision, marks=[] if (name, precision) == RESUMED_QUICKLY else pytest.mark.slow
        )
        for name in NAMES
        for precision in ("32-true", "16-mixed", "bf16-mixed")
    ],
)
def test_a_resumed_run_is_the_unbroken_one(fabric, name, precision, tmp_path) -> None:
    unbroken = Run(fabric, name, precision)
    expected = unbroken.train(ALL[:HALF])
    unbroken.fabric.save(tmp_path / "half", unbroken.state())
    expected += unbroken.train(ALL[HALF:])
    unbroken.close()

    resumed = Run(fabric, name, precision)
    state = resumed.state()
    resumed.fabric.load(tmp_path / "half", state)
    assert state["steps"] == HALF
    assert resumed.train(ALL[HALF:]) == expected[HALF:]
    resumed.close()


@pytest.mark.parametrize("name", ["mps_zero1", "mps_zero2"])
def test_a_second_backward_without_a_step_is_refused(fabric, name) -> None:
    """DeepSpeed would step with something else than the sum of the gradients."""
    run = Run(fabric, name)
    batch = ALL[0].to(run.fabric.device)
    run.fabric.backward(zero_training.loss_of(run.model, batch))
    with pytest.raises(RuntimeError, match="backward\\(\\) came twice"):
        run.fabric.backward(zero_training.loss_of(run.model, batch))
    run.optimizer.step()
    run.fabric.backward(zero_training.loss_of(run.model, batch))
    run.close()


def test_zero3_sums_gradients_until_the_step(fabric) -> None:
    def train(name: str) -> list[float]:
        run = Run(fabric, name)
        losses = []
        for index, batch in enumerate(ALL):
            loss = zero_training.loss_of(run.model, batch.to(run.fabric.device))
            losses.append(loss.item())
            run.fabric.backward(loss / 2)
            if index % 2:
                run.optimizer.step()
                run.optimizer.zero_grad()
        if name != "auto":
            run.close()
        return losses

    assert train("mps_zero3") == train("auto")


def test_clipping_is_configured_with_a_strategy_of_ones_own(fabric) -> None:
    from mps_ds.lightning import register_strategy

    config = {
        "zero_optimization": {"stage": 2},
        "zero_allow_untested_optimizer": True,
        "gradient_clipping": 0.5,
    }
    register_strategy("mps_zero2_clipped", config=config)
    run = Run(fabric, "mps_zero2_clipped")
    with pytest.raises(NotImplementedError, match="gradient_clipping"):
        run.fabric.clip_gradients(run.model, run.optimizer, max_norm=0.5)
    clipped = run.train(ALL)
    run.close()
    zero_training.forget_strategy("mps_zero2_clipped")
    plain = Run(fabric, "auto").train(ALL)
    assert clipped[:2] == plain[:2], "Adam's first step does not see the gradients' scale"
    assert clipped[2:] != plain[2:]
