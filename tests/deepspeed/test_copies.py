"""ZeRO offload starts copies and does not wait; with the layer they are right."""

from __future__ import annotations

import pytest
import torch


def chain(kernels) -> torch.Tensor:
    """As in stage 3: to the host, at once back, on from there, and the host's copy changes."""
    grad = torch.zeros(64, device="mps")
    kernels.add_one(grad)
    host = torch.full((64,), -1.0)
    host.copy_(grad, non_blocking=True)
    back = host.to("mps", non_blocking=True)
    host.fill_(-2)
    del grad
    return back


@pytest.fixture(scope="module")
def kernels():
    return torch.mps.compile_shader(
        "kernel void add_one(device float* x, uint i [[thread_position_in_grid]]) { x[i] += 1; }"
    )


def test_to_the_host_and_back(enabled, kernels) -> None:
    assert chain(kernels).tolist() == [1] * 64


def test_a_source_that_is_freed_at_once(enabled) -> None:
    """pytorch#189690"""
    there = torch.arange(64.0).to("mps", non_blocking=True)
    others = [torch.full((64,), -1.0) for _ in range(50)]
    assert torch.equal(there.cpu(), torch.arange(64.0))
    assert len(others) == 50


def test_the_software_device_finds_it_without_the_layer(kernels) -> None:
    import sys

    if sys.platform == "darwin":
        pytest.skip("on a GPU it goes wrong by chance")
    back = chain(kernels)
    with pytest.raises(RuntimeError, match="non_blocking copy"):
        back.tolist()


def test_copies_are_what_they_were_otherwise(enabled) -> None:
    x = torch.arange(6.0)
    assert torch.equal(torch.empty(6).copy_(x, non_blocking=True), x)
    assert torch.equal(torch.empty(6, device="mps").copy_(x).cpu(), x)
    assert x.to("mps", torch.float16).dtype == torch.float16
    assert x.to(x) is x
    assert torch.empty(2, 3).copy_(x[:3])[1].tolist() == [0, 1, 2]


# Calls of copy_ by what follows the source, and whether the source is named.
FORMS = {
    "other": lambda x, y: x.copy_(y),
    "other, True": lambda x, y: x.copy_(y, True),
    "other, non_blocking=": lambda x, y: x.copy_(y, non_blocking=True),
    "other=": lambda x, y: x.copy_(other=y),
    "other=, non_blocking=": lambda x, y: x.copy_(non_blocking=True, other=y),
}
ILLEGAL = {
    "src=": lambda x: x.copy_(src=x),
    "nothing": lambda x: x.copy_(),
    "non_blocking alone": lambda x: x.copy_(non_blocking=True),
    "non_blocking twice": lambda x: x.copy_(x, True, non_blocking=True),
    "other twice": lambda x: x.copy_(x, other=x),
    "non_blocking=None": lambda x: x.copy_(x, non_blocking=None),
    "non_blocking=1": lambda x: x.copy_(x, non_blocking=1),
    "one more": lambda x: x.copy_(x, True, True),
    "not a tensor": lambda x: x.copy_([1.0]),
    "to non_blocking=1": lambda x: x.to("cpu", non_blocking=1),
    "to non_blocking twice": lambda x: x.to("cpu", torch.float32, True, non_blocking=True),
    "to other=": lambda x: x.to(other=x),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_copy_is_right_to_the_host_and_to_the_device(enabled, kernels, form) -> None:
    copy = FORMS[form]
    grad = torch.zeros(64, device="mps")
    kernels.add_one(grad)
    host = torch.full((64,), -1.0)
    assert copy(host, grad) is host
    there = copy(torch.empty(64, device="mps"), host)
    host.fill_(-2)
    del grad
    assert there.tolist() == [1] * 64


@pytest.mark.parametrize("form", ILLEGAL)
def test_what_torch_refuses_is_refused(enabled, form) -> None:
    with pytest.raises(TypeError):
        ILLEGAL[form](torch.ones(1))


def test_every_form_of_to(enabled) -> None:
    x = torch.arange(3.0)
    for there in (
        x.to("mps", non_blocking=True),
        x.to("mps", torch.float32, True),
        x.to("mps", torch.float32, True, True),
        x.to(device="mps", dtype=torch.float32, non_blocking=True, copy=True),
        x.to(torch.empty(0, device="mps"), True),
        x.to(tensor=torch.empty(0, device="mps")),
    ):
        assert there.device.type == "mps"
        assert there.tolist() == [0, 1, 2]
    assert x.to("cpu", torch.float32, True, True) is not x, "copy, the second bool, is heeded"
    assert x.to(torch.float32, non_blocking=True) is x


def test_it_ends_with_the_layer() -> None:
    import mps_ds.deepspeed

    own = torch.Tensor.copy_, torch.Tensor.to
    mps_ds.deepspeed.enable()
    assert torch.Tensor.copy_ is not own[0]
    assert torch.Tensor.to is not own[1]
    mps_ds.deepspeed.disable()
    assert (torch.Tensor.copy_, torch.Tensor.to) == own
