"""torch.save and torch.load, in both directions between mps and the CPU."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch import nn


def saved(value: object, **options: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file, **options)
    file.seek(0)
    return file


@pytest.mark.parametrize("zip_format", [True, False])
def test_a_tensor_comes_back_where_it_was(zip_format: bool) -> None:
    x = torch.arange(6.0, device="mps").view(2, 3)
    again = torch.load(saved(x, _use_new_zipfile_serialization=zip_format))
    assert again.device == torch.device("mps:0")
    assert torch.equal(again.cpu(), x.cpu())


@pytest.mark.parametrize("target", ["cpu", torch.device("cpu"), {"mps:0": "cpu", "mps": "cpu"}])
def test_from_mps_to_the_cpu(target: Any) -> None:
    again = torch.load(saved(torch.arange(3, device="mps")), map_location=target)
    assert again.device.type == "cpu"
    assert again.tolist() == [0, 1, 2]


@pytest.mark.parametrize("target", ["mps", "mps:0", torch.device("mps")])
def test_from_the_cpu_to_mps(target: Any) -> None:
    again = torch.load(saved(torch.arange(3).bfloat16()), map_location=target)
    assert again.device.type == "mps"
    assert again.tolist() == [0, 1, 2]


def test_sharing_of_a_storage_survives() -> None:
    base = torch.arange(6.0, device="mps")
    loaded = torch.load(saved({"base": base, "view": base.view(2, 3)[1]}), weights_only=True)
    loaded["base"].add_(10)
    assert loaded["view"].tolist() == [13, 14, 15]


def test_model_and_optimizer_resume_exactly() -> None:
    def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        model(torch.ones(4, 8, device="mps")).square().sum().backward()
        optimizer.step()

    torch.manual_seed(0)
    model = nn.Linear(8, 8).to("mps")
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    step(model, optimizer)
    file = saved({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    step(model, optimizer)

    resumed = nn.Linear(8, 8).to("mps")
    resumed_optimizer = torch.optim.AdamW(resumed.parameters(), 1e-2)
    state = torch.load(file, map_location="cpu", weights_only=True)
    resumed.load_state_dict(state["model"])
    resumed_optimizer.load_state_dict(state["optimizer"])
    step(resumed, resumed_optimizer)
    for a, b in zip(model.parameters(), resumed.parameters(), strict=True):
        assert b.device.type == "mps"
        assert torch.equal(a.cpu(), b.cpu())


def test_saving_waits_for_pending_work() -> None:
    library = torch.mps.compile_shader(
        "kernel void fill(device float* x, uint i [[thread_position_in_grid]]) { x[i] = 7; }"
    )
    x = torch.zeros(4, device="mps")
    library.fill(x)
    assert torch.load(saved(x), map_location="cpu").tolist() == [7, 7, 7, 7]
