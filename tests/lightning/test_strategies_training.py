"""Training with a ZeRO strategy on mps is training without it, in one process.

The judge is a loop without Lightning and DeepSpeed on the same operations (which tests/optim holds
to float64). ZeRO lays params end to end and Adam is elementwise, so without clipping nothing may
round differently: losses and params are equal bit for bit.
"""

from __future__ import annotations

import copy

import pytest
import torch
import zero_training
from zero_training import NAMES, STEPS, ParamsAtEnd, data, equal, losses, module, trainer

pytest.importorskip("deepspeed.runtime")
pytestmark = pytest.mark.skipif(not torch.backends.mps.is_available(), reason="no mps device")

TYPES = {"32-true": torch.float32, "16-mixed": torch.float16, "bf16-mixed": torch.bfloat16}
CLIP = 1.0  # below every norm of these gradients but the last


@pytest.fixture(autouse=True, scope="module")
def _switch_deepspeed_off():
    yield
    zero_training.switch_deepspeed_off()


def quick(*values_of_quick: object):
    """For parametrize: these values and `slow` for all others."""
    return [] if all(values_of_quick) else [pytest.mark.slow]


class PlainLoop:
    """Mixed precision as ZeRO has it: float32 params, and copies of them that compute."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.network = zero_training.network().to("mps")
        self.copy = copy.deepcopy(self.network).to(dtype)
        for param, copy_ in zip(self.network.parameters(), self.copy.parameters(), strict=True):
            param.data.copy_(copy_)  # DeepSpeed makes the float32 params of the 16-bit ones
        self.optimizer, self.scheduler = zero_training.optimizer_of(self.network.parameters())
        self.dtype = dtype
        # DeepSpeed's defaults: the first overflow is forgiven (hysteresis 2), each later one halves
        self.scale, self.forgiven = (2.0**16, 1) if dtype == torch.float16 else (1.0, 0)
        self.losses: list[float] = []
        self.skipped = 0

    def step(self, *batches: torch.Tensor) -> None:
        for batch in batches:
            loss = zero_training.loss_of(self.copy, batch.to("mps", self.dtype))
            self.losses.append(loss.item())
            (loss / len(batches) * self.scale).backward()
        pairs = list(zip(self.network.parameters(), self.copy.parameters(), strict=True))
        overflow = not all(copy_.grad.isfinite().all() for _, copy_ in pairs)
        if overflow:
            self.skipped += 1
            self.scale, self.forgiven = (
                (self.scale, self.forgiven - 1) if self.forgiven else (self.scale / 2, 0)
            )
        else:
            for param, copy_ in pairs:
                param.grad = copy_.grad.float() / self.scale
            self.optimizer.step()
            for param, copy_ in pairs:
                copy_.data.copy_(param)
        for param, copy_ in pairs:
            param.grad = copy_.grad = None
        self.scheduler.step()


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")  # a first step is skipped
@pytest.mark.parametrize(
    ("name", "precision"),
    [
        pytest.param(name, precision, marks=quick(name == "mps_zero2"))
        for name in NAMES
        for precision in TYPES
    ],
)
def test_losses_and_params_are_those_of_a_plain_loop(pl, name, precision) -> None:
    expected = PlainLoop(TYPES[precision])
    for batch in data():
        expected.step(batch)

    told, end = module(pl), ParamsAtEnd.callback(pl)
    trainer(pl, name, precision=precision, callbacks=[end]).fit(told, data())
    assert losses(told) == expected.losses
    assert equal(end.params, zero_training.whole_params(expected.copy))
    assert expected.losses[0] != expected.losses[-1]
    if precision == "16-mixed":
        assert 0 < expected.skipped < STEPS, "some steps overflow, some do not"


def test_batches_are_accumulated(pl) -> None:
    expected, batches = PlainLoop(torch.float32), list(data())
    for first, second in zip(batches[::2], batches[1::2], strict=True):
        expected.step(first, second)

    told, end = module(pl), ParamsAtEnd.callback(pl)
    trainer(pl, "mps_zero2", accumulate_grad_batches=2, callbacks=[end]).fit(told, data())
    assert losses(told) == expected.losses
    assert equal(end.params, zero_training.whole_params(expected.network))


def test_manual_optimization_steps_after_each_backward(pl) -> None:
    class Manual(type(module(pl))):
        steps_every = 1

        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, batch_idx):
            self.manual_backward(super().training_step(batch, batch_idx))
            if batch_idx % self.steps_every == 0:
                self.optimizers().step()
                self.optimizers().zero_grad()

    told, plain = Manual(), Manual()
    trainer(pl, "mps_zero2").fit(told, data())
    trainer(pl, "auto").fit(plain, data())
    assert losses(told) == losses(plain)
    told.steps_every = 3
    with pytest.raises(RuntimeError, match=r"came twice without optimizer\.step"):
        trainer(pl, "mps_zero2").fit(told, data())


@pytest.mark.parametrize("name", [pytest.param(n, marks=quick(n == "mps_zero2")) for n in NAMES])
def test_clipping_is_that_of_a_plain_trainer(pl, name) -> None:
    """Both multiply gradients by clip / (norm + 1e-6).

    A norm is within 4 ulp on either side, and the coefficient takes three roundings more on either
    side: 2 * (4 + 3) * 2^-23 = d relative. Adam's means differ by d then, and a step by at most
    2 d lr |u| with |u| <= (1 - beta1) / sqrt(1 - beta2) < 3.2; params are rounded again, to one ulp
    on either side. To first order a loss moves by the gradient's norm times all that.
    """
    plain, norms = module(pl), []
    trainer(pl, "auto", gradient_clip_val=CLIP, callbacks=[_norms(pl, norms)]).fit(plain, data())
    clipped = module(pl)
    trainer(pl, name, gradient_clip_val=CLIP).fit(clipped, data())
    unclipped = PlainLoop(torch.float32)
    for batch in data():
        unclipped.step(batch)

    params = zero_training.whole_params(zero_training.network())
    count = sum(param.numel() for param in params)
    size = max(p.norm().item() for p in [torch.cat([param.flatten() for param in params])])
    per_step = 2 * 14 * 2.0**-23 * zero_training.LR * 3.2 * count**0.5 + 2 * 2.0**-23 * size
    assert min(norms) > CLIP, "every step is clipped"
    for step, (loss, other) in enumerate(zip(losses(clipped), losses(plain), strict=True)):
        assert abs(loss - other) <= step * max(norms) * per_step, f"step {step}"
    difference = abs(losses(clipped)[-1] - unclipped.losses[-1])
    assert difference > STEPS * max(norms) * per_step, "clipping shows"


def _norms(pl, norms: list[float]):
    class Norms(pl.Callback):
        def on_before_optimizer_step(self, trainer, pl_module, optimizer):
            gradients = [param.grad for param in pl_module.parameters()]
            norms.append(torch.nn.utils.get_total_norm(gradients).item())

    return Norms()


def test_clipping_by_value_is_refused_by_lightning(pl) -> None:
    clipping = {"gradient_clip_val": 1.0, "gradient_clip_algorithm": "value"}
    with pytest.raises(pl.utilities.exceptions.MisconfigurationException, match="by value"):
        trainer(pl, "mps_zero2", **clipping).fit(module(pl), data())


@pytest.mark.parametrize("name", [pytest.param(n, marks=quick(n == "mps_zero3")) for n in NAMES])
def test_a_module_is_trained_again(pl, name) -> None:
    def twice(strategy: str) -> list[float]:
        told = module(pl)
        for _ in range(2):
            trainer(pl, strategy).fit(told, data())
        return losses(told)

    assert twice(name) == twice("auto")


def test_offload_steps_on_the_cpu(pl) -> None:
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    from mps_ds.optim import CPUAdam

    class Offloaded(type(module(pl))):
        def configure_optimizers(self):
            return DeepSpeedCPUAdam(self.parameters(), lr=zero_training.LR, weight_decay=0.1)

    told = Offloaded()
    trainer(pl, "mps_zero2_offload").fit(told, data())

    network, expected = zero_training.network().to("mps"), []
    optimizer = CPUAdam(network.parameters(), lr=zero_training.LR, weight_decay=0.1)
    for batch in data():
        loss = zero_training.loss_of(network, batch.to("mps"))
        expected.append(loss.item())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert losses(told) == expected


def test_zero3_makes_params_in_shards(pl) -> None:
    """With configure_model, params are never whole on the device."""
    made = []

    class Configured(type(module(pl))):
        def __init__(self) -> None:
            super().__init__()
            del self.network

        def configure_model(self) -> None:
            self.network = zero_training.network()
            made.extend(zero_training.whole_params(self.network))
            assert all(hasattr(param, "ds_id") for param in self.network.parameters())

    told = Configured()
    trainer(pl, "mps_zero3").fit(told, data())
    plain = module(pl)
    for param, value in zip(plain.network.parameters(), made, strict=True):
        param.data.copy_(value)
    trainer(pl, "auto").fit(plain, data())
    assert losses(told) == losses(plain)


def test_an_instance_of_the_accelerator(pl) -> None:
    told = module(pl)
    arguments = {"accelerator": pl.accelerators.MPSAccelerator(), "precision": "bf16-mixed"}
    arguments |= {"max_epochs": 1, "use_distributed_sampler": False, **zero_training.QUIET}
    pl.Trainer(strategy="mps_zero2", devices=1, **arguments).fit(told, data())
    by_name = module(pl)
    trainer(pl, "mps_zero2", precision="bf16-mixed").fit(by_name, data())
    assert losses(told) == losses(by_name)
