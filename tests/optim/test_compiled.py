"""FusedAdam beside torch.compile: of the model, and of a function that steps."""

import copy

import pytest
import torch
from torch import nn

from mps_ds.optim import FusedAdam


def make(device):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3)).to(device)


def loss_of(model, step, device):
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(step)).to(device)
    return model(x).square().mean()


def train(model, optimizer, one_step):
    losses = []
    for step in range(4):
        losses.append(one_step(model, optimizer, step).item())
    return losses


@pytest.mark.parametrize("what", ["model", "step"])
def test_compiled_code_trains_as_eager_code_does(device, what):
    def one_step(model, optimizer, step):
        loss = loss_of(model, step, device)
        loss.backward()
        optimizer.step(max_norm=0.5)
        optimizer.zero_grad()
        return loss.detach()

    model = make(device)
    twin = copy.deepcopy(model)
    expected = train(twin, FusedAdam(twin.parameters(), lr=0.1), one_step)
    torch._dynamo.reset()
    optimizer = FusedAdam(model.parameters(), lr=0.1)
    if what == "model":
        losses = train(torch.compile(model, backend="aot_eager"), optimizer, one_step)
    else:
        losses = train(model, optimizer, torch.compile(one_step, backend="aot_eager"))
    assert losses == pytest.approx(expected, rel=1e-5)
    assert losses[-1] < losses[0]
    assert {float(state["step"]) for state in optimizer.state.values()} == {4.0}
