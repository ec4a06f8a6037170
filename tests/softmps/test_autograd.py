"""Autograd on mps: gradients, hooks, stale versions, checkpointing, functional transforms."""

from __future__ import annotations

import threading

import pytest
import torch
import torch.utils.checkpoint
from torch import Tensor, nn


def test_gradients_accumulate_and_live_on_the_device() -> None:
    x = torch.tensor([1.0, 2, 3], device="mps", requires_grad=True)
    (x * x).sum().backward()
    (x * 2).sum().backward()
    assert x.grad is not None
    assert x.grad.device.type == "mps"
    assert x.grad.tolist() == [4, 6, 8]


def test_a_stale_backward_raises() -> None:
    x = torch.ones(3, device="mps", requires_grad=True)
    y = x.exp()
    loss = y.sum()
    y.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_in_place_on_a_view_of_a_leaf_raises() -> None:
    x = torch.ones(3, device="mps", requires_grad=True)
    with pytest.raises(RuntimeError, match="in-place operation"):
        x[0].add_(1)


def test_gradient_through_an_in_place_view() -> None:
    results = []
    for device in ("cpu", "mps"):
        x = torch.arange(6.0, device=device, requires_grad=True)
        y = x * 2
        y[1:3].mul_(x[3:5])
        y.square().sum().backward()
        assert x.grad is not None
        results.append(x.grad.cpu())
    assert torch.equal(*results)


def test_a_copy_between_devices_is_differentiable() -> None:
    x = torch.ones(3, requires_grad=True)
    (x.to("mps") * 3).cpu().sum().backward()
    assert x.grad is not None
    assert x.grad.device.type == "cpu"
    assert x.grad.tolist() == [3, 3, 3]


def test_hooks_and_retained_gradients() -> None:
    seen: list[torch.device] = []
    x = torch.ones(2, device="mps", requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: seen.append(g.device))
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.device))
    y.sum().backward()
    assert y.grad is not None
    assert seen == [torch.device("mps:0")] * 2


def test_checkpoint_recomputes_the_same() -> None:
    def block(x: Tensor) -> Tensor:
        return (x.sin() * x).exp()

    gradients = []
    for checkpointed in (False, True):
        x = torch.linspace(-1, 1, 64, device="mps").requires_grad_()
        if checkpointed:
            y = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
        else:
            y = block(x)
        y.sum().backward()
        assert x.grad is not None
        gradients.append(x.grad.cpu())
    assert torch.equal(*gradients)


def test_second_derivatives() -> None:
    x = torch.tensor([0.5, 2.0], device="mps", requires_grad=True)
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert torch.equal(second.cpu(), torch.tensor([3.0, 12.0]))


def test_functional_transforms() -> None:
    a = torch.arange(12.0, device="mps").view(3, 2, 2)
    assert torch.equal(torch.func.vmap(lambda m: m @ m)(a).cpu(), a.cpu() @ a.cpu())
    x = torch.ones(3, device="mps")
    jacobian = torch.func.jacrev(lambda v: v * v)(x)
    assert torch.equal(jacobian.cpu(), 2 * torch.eye(3))


def test_backward_from_several_python_threads_one_after_the_other() -> None:
    model = nn.Linear(4, 4).to("mps")

    def step() -> None:
        model(torch.ones(2, 4, device="mps")).sum().backward()

    for _ in range(3):
        worker = threading.Thread(target=step)
        worker.start()
        worker.join()
    assert model.weight.grad is not None
    assert (model.weight.grad == 6).all()


def test_inference_mode() -> None:
    x = torch.ones(2, device="mps")
    with torch.inference_mode():
        y = x + 1
    assert y.is_inference()
    assert not x.is_inference()
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        torch.ones(2, device="mps", requires_grad=True) * y
