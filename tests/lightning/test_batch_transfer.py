"""Lightning's move of a batch to mps: every structure that it knows, and sources that die at once.

PyTorch does not keep the source of a non-blocking copy to mps alive (pytorch#189690). The software
device raises at the next wait where such a source has gone or has changed.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections import OrderedDict, UserDict, UserList, defaultdict, namedtuple
from typing import Any

import numpy as np
import pytest
import straight
import torch
from torch.nn.utils.rnn import PackedSequence, pack_sequence
from trainers import fit, module_class

Pair = namedtuple("Pair", ["x", "y"])


@dataclasses.dataclass
class Sample:
    x: torch.Tensor
    name: str
    length: int = dataclasses.field(init=False, default=3)


class Moves:
    """As torchtext's and transformers' batches: `to` moves it in place and returns it."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    def to(self, device: Any) -> Moves:
        self.x = self.x.to(device)
        return self


class MovesOnly(Moves):
    def to(self, device: Any) -> None:  # type: ignore[override]
        """Forgets to return it; Lightning puts up with that."""
        super().to(device)


class Untouched:
    """Lightning does not look into an object without `to`."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


def x() -> torch.Tensor:
    return torch.arange(6.0).reshape(2, 3)


def packed() -> PackedSequence:
    return pack_sequence([torch.arange(3.0), torch.arange(2.0)])


# How to make each, and how to get at what must have moved.
STRUCTURES: dict[str, tuple[Any, Any]] = {
    "tensor": (x, lambda b: b),
    "strided tensor": (lambda: x().T[1:], lambda b: b),
    "tensor without elements": (lambda: torch.empty(0, 3), lambda b: b),
    "list": (lambda: [x(), x()], lambda b: b[1]),
    "tuple": (lambda: (x(), "text", 3), lambda b: b[0]),
    "dict": (lambda: {"x": x(), "text": "text"}, lambda b: b["x"]),
    "namedtuple": (lambda: Pair(x(), 1), lambda b: b.x),
    "OrderedDict": (lambda: OrderedDict(a=x()), lambda b: b["a"]),
    "defaultdict": (lambda: defaultdict(list, a=x()), lambda b: b["a"]),
    "mapping of one's own": (lambda: UserDict(a=[x()]), lambda b: b["a"][0]),
    "sequence of one's own": (lambda: UserList([x(), None]), lambda b: b[0]),
    "dataclass": (lambda: Sample(x(), "name"), lambda b: b.x),
    "nested": (lambda: {"a": [(Pair(Sample(x(), ""), {}),)]}, lambda b: b["a"][0][0].x.x),
    "PackedSequence": (packed, lambda b: b.data),
    "object with to": (lambda: Moves(x()), lambda b: b.x),
    "object whose to returns nothing": (lambda: [MovesOnly(x())], lambda b: b[0].x),
    "numpy array": (lambda: torch.from_numpy(np.ones((2, 3), np.float32)), lambda b: b),
}


def check(name: str, moved: Any) -> None:
    make, tensor_of = STRUCTURES[name]
    expected = make()
    assert type(moved) is type(expected)
    assert tensor_of(moved).device.type == "mps"
    assert torch.equal(tensor_of(moved).cpu(), tensor_of(expected))
    if isinstance(moved, PackedSequence):
        assert moved.batch_sizes.device.type == "cpu"  # PyTorch wants them there
        assert torch.equal(moved.batch_sizes, expected.batch_sizes)
    if isinstance(moved, defaultdict):
        assert moved.default_factory is list


@pytest.mark.parametrize("name", STRUCTURES)
def test_every_way_moves_it(pl, fabric, name):
    make, _ = STRUCTURES[name]
    apply_func = sys.modules[f"{fabric.__name__}.utilities.apply_func"]
    to_device = fabric.Fabric(accelerator="mps", devices=1).to_device
    trainer = pl.Trainer(accelerator="mps", devices=1, logger=False, barebones=True)
    module = module_class(pl)()
    for move in (
        functools.partial(apply_func.move_data_to_device, device=torch.device("mps")),
        functools.partial(apply_func.move_data_to_device, device="mps"),
        to_device,
        functools.partial(trainer.strategy.batch_to_device, device=torch.device("mps", 0)),
        lambda batch, m=module: m.transfer_batch_to_device(batch, torch.device("mps", 0), 0),
    ):
        moved = move(make())  # the sources are gone by now
        torch.mps.synchronize()
        check(name, moved)


def test_the_device_tells_of_sources_that_have_gone():
    """Else the test above would show nothing about lifetimes."""
    if sys.platform == "darwin":
        pytest.skip("only the software device tells")
    moved = x().to("mps", non_blocking=True)
    with pytest.raises(RuntimeError, match="non_blocking"):
        torch.mps.synchronize()
    del moved


def test_a_trainer_moves_batches_and_calls_the_hooks_around_it(pl):
    batch = {"x": straight.batches(1), "more": [Pair(Moves(x()), packed())]}
    calls = []

    def training_step(module, moved, index):
        assert moved["more"][0].x.x.device.type == moved["more"][0].y.data.device.type == "mps"
        return straight.loss_of(module.layer, moved["x"])

    def before(module, batch, dataloader_idx):
        calls.append(("before", batch["x"].device.type))
        return batch

    def after(module, batch, dataloader_idx):
        calls.append(("after", batch["x"].device.type))
        return batch

    module = type(
        "Nested",
        (module_class(pl),),
        {
            "training_step": training_step,
            "on_before_batch_transfer": before,
            "on_after_batch_transfer": after,
        },
    )()
    loader = torch.utils.data.DataLoader([batch, batch], batch_size=None)
    trainer = fit(pl, module, loader=loader)
    assert calls == [("before", "cpu"), ("after", "mps")] * 2
    assert trainer.global_step == 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_a_dtype_that_mps_lacks_is_named(fabric, dtype):
    """Moving does not convert: what numpy makes in float64 is for the data set to convert."""
    with pytest.raises(TypeError, match=r"[Cc]onvert .*MPS.* support"):
        fabric.Fabric(accelerator="mps", devices=1).to_device([x().to(dtype)])


def test_what_lightning_does_not_move(fabric):
    setup = fabric.Fabric(accelerator="mps", devices=1)
    assert setup.to_device(Untouched(x())).x.device.type == "cpu"
    assert setup.to_device({1, 2}) == {1, 2}
    frozen = dataclasses.make_dataclass("Frozen", ["x"], frozen=True)
    with pytest.raises(ValueError, match="frozen dataclass"):
        setup.to_device(frozen(x()))
