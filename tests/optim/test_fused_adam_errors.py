"""FusedAdam refuses what it cannot do, and leaves everything as it was."""

import pytest
import torch
from torch import nn

from mps_ds.optim import FusedAdam


def make(device, count=2):
    return [nn.Parameter(torch.ones(3, device=device)) for _ in range(count)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": -1.0}, "Invalid learning rate: -1.0"),
        ({"lr": float("nan")}, "Invalid learning rate: nan"),
        ({"betas": (1.0, 0.9)}, "Invalid beta parameter at index 0: 1.0"),
        ({"betas": (0.9, -0.1)}, "Invalid beta parameter at index 1: -0.1"),
        ({"eps": -1e-8}, "Invalid epsilon value"),
        ({"weight_decay": -0.1}, "Invalid weight_decay value"),
        ({"lr": float("inf")}, "Invalid learning rate: inf"),
        ({"betas": (0.9,)}, "there must be two"),
        ({"eps": 1e-39}, "it must be 0, or finite and at least 1.2e-38"),
        ({"differentiable": True}, "does not support differentiable=True"),
        ({"lr": torch.ones(2)}, "lr is a tensor of 2 elements on cpu"),
    ],
)
def test_options(options, message):
    with pytest.raises(ValueError, match=message):
        FusedAdam(make("cpu"), **options)
    optimizer = FusedAdam(make("cpu"))
    with pytest.raises(ValueError, match=message):
        optimizer.add_param_group({"params": make("cpu"), **options})
    assert len(optimizer.param_groups) == 1


def test_state_dtype():
    with pytest.raises(ValueError, match=r"state_dtype is torch\.float64; accepted are"):
        FusedAdam(make("cpu"), state_dtype=torch.float64)


def test_a_state_dtype_that_is_not_the_params(device):
    params = make(device)
    for param in params:
        param.grad = torch.ones_like(param)
    optimizer = FusedAdam(params, state_dtype=torch.float16)
    with pytest.raises(
        RuntimeError, match=r"state_dtype is torch\.float16, a parameter is torch\.float32"
    ):
        optimizer.step()
    assert not optimizer.state


def test_no_params():
    with pytest.raises(ValueError, match="empty parameter list"):
        FusedAdam([])


def check_refused(params, message):
    """step() raises with `message`; params, states and step counts are as before."""
    optimizer = FusedAdam(params)
    before = [p.detach().clone() for p in params]
    with pytest.raises(RuntimeError, match=message):
        optimizer.step()
    for old, new in zip(before, params, strict=True):
        assert torch.equal(old, new)
    assert all(s["step"] == 0 and not s["exp_avg"].any() for s in optimizer.state.values())


def test_params_on_two_devices():
    if not torch.backends.mps.is_available():
        pytest.skip("no mps device in this build")
    params = [*make("mps"), *make("cpu")]
    for param in params:
        param.grad = torch.ones_like(param)
    check_refused(params, r"params\[2\] is on cpu, params\[0\] on mps:0")


@pytest.mark.parametrize("dtype", [torch.complex64])
def test_dtypes(device, dtype):
    params = make(device)
    params.append(nn.Parameter(torch.ones(3, device=device, dtype=dtype)))
    for param in params:
        param.grad = torch.ones_like(param)
    check_refused(params, rf"params\[2\] is {dtype}; accepted are torch.float32")


def test_sparse_gradients():
    params = make("cpu")
    params[0].grad = torch.ones(3)
    params[1].grad = torch.ones(3).to_sparse()
    check_refused(params, r"params\[1\] or its grad is sparse")


def test_a_param_given_twice(device):
    params = make(device, 1)
    params[0].grad = torch.ones(3, device=device)
    with pytest.warns(UserWarning, match="duplicate"):
        optimizer = FusedAdam([params[0], params[0]])
    with pytest.raises(RuntimeError, match=r"\w+\[1\] and \w+\[0\] share memory"):
        optimizer.step()
    assert torch.equal(params[0].detach().cpu(), torch.ones(3))


def test_a_gradient_replaced_by_one_of_another_kind(device):
    params = make(device)
    optimizer = FusedAdam(params)
    for param in params:
        param.grad = torch.ones_like(param)
    optimizer.step()
    values = [p.detach().clone() for p in params]
    params[1].grad.data = torch.ones(3, device=device, dtype=torch.int32)
    with pytest.raises(RuntimeError, match=r"grads\[1\] is Int; accepted are torch.float32"):
        optimizer.step()
    assert [optimizer.state[p]["step"] for p in params] == [1, 1]
    assert all(torch.equal(a, b) for a, b in zip(values, params, strict=True))


def test_a_bad_option_of_one_group_stops_the_others_too(device):
    params = make(device)
    optimizer = FusedAdam([{"params": [p]} for p in params])
    for param in params:
        param.grad = torch.ones_like(param)
    optimizer.param_groups[1]["lr"] = -1.0
    with pytest.raises(ValueError, match="Invalid learning rate"):
        optimizer.step()
    optimizer.param_groups[1]["lr"] = 0.1
    params[1].grad.data = torch.ones(3, device=device, dtype=torch.int32)
    with pytest.raises(RuntimeError, match=r"grads\[1\] is Int"):
        optimizer.step()
    assert all(torch.equal(p.detach().cpu(), torch.ones(3)) for p in params)
    assert {s["step"] for s in optimizer.state.values()} == {0}


def test_groups_that_share_memory(device):
    flat = torch.ones(5, device=device)
    params = [nn.Parameter(flat[:3]), nn.Parameter(flat[2:])]
    optimizer = FusedAdam([{"params": [p]} for p in params])
    for param in params:
        param.grad = torch.ones_like(param)
    with pytest.raises(RuntimeError, match=r"params\[1\] and params\[0\] share memory"):
        optimizer.step()


def test_options_switched_on_later(device):
    params = make(device)
    optimizer = FusedAdam(params)
    optimizer.param_groups[0]["differentiable"] = True
    with pytest.raises(ValueError, match="does not support differentiable=True"):
        optimizer.step()


def test_a_lazily_negated_param(device):
    param = nn.Parameter(torch._neg_view(torch.ones(3, device=device)))
    param.grad = torch.ones(3, device=device)
    check_refused([param], r"params\[0\] is a lazily negated view")


def test_a_wrapper_subclass(device):
    from torch.testing._internal.two_tensor import TwoTensor

    param = nn.Parameter(TwoTensor(torch.ones(3, device=device), torch.ones(3, device=device)))
    param.grad = torch.ones_like(param)
    with pytest.raises(RuntimeError, match=r"params\[0\] is a TwoTensor"):
        FusedAdam([param]).step()
