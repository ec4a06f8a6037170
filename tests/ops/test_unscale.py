"""multi_tensor_unscale_: what torch.amp.GradScaler needs, in place."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from norm_reference import BOUNDARIES, DTYPES, bits, values

from mps_ds.ops import multi_tensor_unscale_

DEVICES = ["mps", "cpu"] if torch.backends.mps.is_available() else ["cpu"]


def number(x: float, device) -> torch.Tensor:
    return torch.tensor(x, dtype=torch.float32, device=device)


def unscaled(grads, inv_scale, found=0.0, as_tensor=True) -> float:
    """Unscales in place; gives found_inf afterwards."""
    found_inf = number(found, grads[0].device)
    factor = number(inv_scale, grads[0].device) if as_tensor else inv_scale
    multi_tensor_unscale_(grads, found_inf, factor)
    return found_inf.item()


@pytest.mark.parametrize("as_tensor", [True, False])
def test_the_public_report(device, as_tensor):
    # pytorch#184286
    grad = torch.tensor([2.0, 4.0], dtype=torch.bfloat16, device=device)
    assert unscaled([grad], 0.5, as_tensor=as_tensor) == 0.0
    assert grad.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_equals_torch_bit_for_bit(device, dtype):
    for inv_scale in (2.0**-16, 1 / 3, 1.0, 3.0):
        grads = [values(n, dtype, n) for n in BOUNDARIES]
        expected = [g.clone() for g in grads]
        found_inf = torch.zeros(1)
        torch._amp_foreach_non_finite_check_and_unscale_(
            expected, found_inf, torch.tensor([inv_scale])
        )
        grads = [g.to(device) for g in grads]
        assert unscaled(grads, inv_scale) == found_inf.item() == 0.0
        for n, grad, wanted in zip(BOUNDARIES, grads, expected, strict=True):
            assert bits(grad) == bits(wanted), n


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("inv_scale", [0.5, 1.0])
def test_found_inf_is_set(device, dtype, bad, inv_scale):
    for size in (1, 2, 3, 4, 5, 8, 9, 130, 8193):
        grads = [torch.ones(size, dtype=dtype, device=device) for _ in range(2)]
        assert unscaled(grads, inv_scale) == 0.0
        grads[1][-1] = bad
        assert unscaled(grads, inv_scale) == 1.0, size


def test_found_inf_is_never_cleared(device):
    assert unscaled([torch.ones(4, device=device)], 0.5, found=1.0) == 1.0
    assert unscaled([torch.ones(4, device=device)], 1.0, found=1.0) == 1.0


def test_what_overflows_by_scaling_alone_is_not_found(device):
    # As in torch: the flag is about what came in.
    grad = torch.tensor([1e38], device=device)
    assert unscaled([grad], 1e10) == 0.0
    assert grad.item() == math.inf


def test_scale_1_writes_nothing(device):
    # Subnormals and NaN payloads would not survive a product on every device.
    patterns = torch.tensor([1, 0x7F800001, -0x7FFFFFFF, 0x3F800000], dtype=torch.int32)
    grad = patterns.view(torch.float32).to(device)
    version = grad._version
    assert unscaled([grad], 1.0) == 1.0
    assert bits(grad) == patterns.tolist()
    assert grad._version > version  # torch cannot know


def test_each_row_keeps_its_type_and_strides(device):
    memory = values((20, 30)).to(device)
    before = memory.clone()
    grads = [
        memory[:10].t(),
        memory[10:, ::3],
        values(77, torch.float16).to(device),
        values(100, torch.bfloat16).to(device)[1:],
        torch.empty(0, device=device),
    ]
    expected = [g.clone() * 0.25 for g in grads]
    assert unscaled(grads, 0.25) == 0.0
    for grad, wanted in zip(grads, expected, strict=True):
        assert torch.equal(grad, wanted)
    for column in (1, 2):  # between the strides
        assert torch.equal(memory[10:, column::3], before[10:, column::3])


def test_an_empty_list():
    found_inf = torch.zeros(())
    multi_tensor_unscale_([], found_inf, 0.5)
    assert found_inf.item() == 0.0


@settings(deadline=None, max_examples=60)
@given(
    elements=st.lists(st.floats(width=32), min_size=1, max_size=40),
    dtype=st.sampled_from(DTYPES),
    inv_scale=st.floats(2.0**-20, 2.0**20, width=32),
    step=st.integers(1, 3),
)
def test_any_values_and_strides(elements, dtype, inv_scale, step):
    source = torch.tensor(elements, dtype=torch.float32).to(dtype)
    wanted = (source[::step].float() * inv_scale).to(dtype).float().numpy()
    if inv_scale == 1.0:
        wanted = source[::step].float().numpy()
    for device in DEVICES:
        grad = source.clone().to(device)[::step]
        found = unscaled([grad], inv_scale)
        assert found == float(not np.isfinite(source[::step].float().numpy()).all())
        got = grad.float().cpu().numpy()
        # A GPU may lose what is subnormal in float32 on either side of the product.
        inputs = np.abs(source[::step].float().numpy())
        lost = (np.abs(wanted) < 2.0**-126) | (inputs < 2.0**-126)
        np.testing.assert_array_equal(got[~lost], wanted[~lost])
        assert np.all(np.abs(got[lost]) <= np.abs(wanted[lost]) + 2.0**-126 * max(1, inv_scale))


def refused(grads, message, found_inf=None, inv_scale=0.5) -> None:
    """The call raises with `message` and writes nothing."""
    device = grads[0].device
    found_inf = number(0.0, device) if found_inf is None else found_inf
    before = [g.clone() for g in grads]
    with pytest.raises(RuntimeError, match=message):
        multi_tensor_unscale_(grads, found_inf, inv_scale)
    for grad, old in zip(grads, before, strict=True):
        assert grad.is_sparse or torch.equal(grad, old)


def test_bad_input(device):
    ones = torch.ones(4, device=device)
    refused([ones, ones.int()], r"grads\[1\] is Int; accepted are torch.float32, torch.float16")
    refused([ones], r"found_inf is Long", found_inf=torch.zeros(1, device=device).long())
    refused([ones], r"found_inf has shape \(2,\); it must", found_inf=torch.zeros(2, device=device))
    refused([ones], r"scale has shape \(2,\)", inv_scale=torch.ones(2, device=device))
    refused([ones, ones[1:3]], r"grads\[\d\] and grads\[\d\] share memory")
    refused([ones], r"found_inf and grads\[0\] share", ones[:1])
    refused([ones[:1].expand(3)], r"grads\[0\] is written, but dimension 0")


def test_sparse_and_float64_gradients():
    refused([torch.ones(4).to_sparse()], r"grads\[0\] is sparse; accepted are dense tensors")
    refused([torch.ones(4).double()], r"grads\[0\] is Double")


@pytest.mark.skipif(not torch.backends.mps.is_available(), reason="needs two devices")
def test_other_devices():
    ones = torch.ones(4, device="mps")
    refused([ones, torch.ones(4)], r"grads\[1\] is on cpu; all tensors of this call must be on mps")
    refused([ones], r"found_inf is on cpu; it must be on mps", found_inf=torch.zeros(1))
    refused([ones], r"scale is on cpu; it must be on mps", inv_scale=torch.ones(1))


def test_opcheck(device):
    grads = [values(5).to(device), values((2, 3), torch.float16).to(device).t()]
    for factor in ((number(0.5, device), 1.0), (None, 0.5)):
        torch.library.opcheck(
            torch.ops.mps_ds.multi_tensor_unscale_.default, (grads, number(0, device), *factor)
        )
