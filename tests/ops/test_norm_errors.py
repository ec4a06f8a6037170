"""Norms refuse what they cannot do, by name and position."""

import math

import pytest
import torch

from mps_ds.ops import (
    clip_grad_norm_,
    multi_tensor_l2norm,
    multi_tensor_non_finite,
    norm_and_non_finite,
)

CALLS = [multi_tensor_l2norm, multi_tensor_non_finite, norm_and_non_finite]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("dtype", "name"),
    [(torch.int32, "Int"), (torch.complex64, "ComplexFloat"), (torch.bool, "Bool")],
)
def test_dtypes(device, call, dtype, name):
    tensors = [torch.ones(3, device=device), torch.ones(3, device=device).to(dtype)]
    with pytest.raises(RuntimeError, match=rf"tensors\[1\] is {name}; accepted are torch.float32"):
        call(tensors)


@pytest.mark.parametrize("call", CALLS)
def test_float64_and_sparse_tensors(call):
    with pytest.raises(RuntimeError, match=r"tensors\[0\] is Double"):
        call([torch.ones(3).double()])
    with pytest.raises(RuntimeError, match=r"tensors\[0\] is sparse; accepted are dense"):
        call([torch.ones(3).to_sparse()])


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.skipif(not torch.backends.mps.is_available(), reason="needs two devices")
@pytest.mark.parametrize("place", [0, 1])
def test_mixed_devices(call, place):
    tensors = [torch.ones(3, device="mps") for _ in range(2)]
    tensors[place] = tensors[place].cpu()
    with pytest.raises(RuntimeError, match=rf"tensors\[{place}\] is on cpu; .* must be on mps"):
        call(tensors)


@pytest.mark.parametrize("norm_type", [1.0, 0.0, 3.0, -math.inf, math.nan])
def test_norm_types(device, norm_type):
    tensors = [torch.ones(3, device=device)]
    for call in (multi_tensor_l2norm, norm_and_non_finite):
        with pytest.raises(RuntimeError, match=r"norm_type is .*; accepted are 2 and inf"):
            call(tensors, norm_type=norm_type)
    with pytest.raises(RuntimeError, match=r"norm_type is .*; accepted are 2 and inf"):
        multi_tensor_l2norm([], norm_type=norm_type)


def test_groups(device):
    tensors = [torch.ones(3, device=device) for _ in range(2)]
    with pytest.raises(RuntimeError, match=r"groups has 1 entries, tensors has 2"):
        norm_and_non_finite(tensors, groups=[0])
    with pytest.raises(RuntimeError, match=r"groups\[1\] is -1; groups are counted from 0"):
        norm_and_non_finite(tensors, groups=[0, -1])
    with pytest.raises(RuntimeError, match=r"in_norm has 3 entries, tensors has 2"):
        norm_and_non_finite(tensors, in_norm=[True, False, True])
    op = torch.ops.mps_ds.norm_and_non_finite
    with pytest.raises(RuntimeError, match=r"groups\[0\] is 2; accepted are -1 .* to 1"):
        op(tensors, [2, 0], 2)


def test_max_norm_and_grad_scale(device):
    op = torch.ops.mps_ds._grad_norm
    grads = [torch.ones(3, device=device)]
    with pytest.raises(RuntimeError, match="max_norm is nan"):
        op(grads, None, math.nan, 2.0)
    with pytest.raises(
        RuntimeError, match=r"grad_scale has shape \(2,\); it must have one element"
    ):
        op(grads, torch.ones(2, device=device), 1.0, 2.0)
    with pytest.raises(
        RuntimeError, match=r"grad_scale is torch.float16; accepted is torch.float32"
    ):
        op(grads, torch.ones(1, device=device).half(), 1.0, 2.0)


def test_clip_refuses_before_it_writes():
    params = [torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(3).double())]
    for param in params:
        param.grad = torch.ones_like(param)
    with pytest.raises(RuntimeError, match=r"grads\[1\] is Double"):
        clip_grad_norm_(params, 0.1)
    assert params[0].grad.tolist() == [1.0] * 3


def test_meta_tensors_get_shapes():
    total, norms = multi_tensor_l2norm([torch.empty(3, device="meta")] * 2, per_tensor=True)
    assert total.device.type == "meta"
    assert norms.shape == (2,)
