"""clip_grad_norm_ against torch.nn.utils.clip_grad_norm_."""

import math
import warnings

import pytest
import torch
from norm_reference import BOUNDARIES, DTYPES, bits, exact, ulps, values

from mps_ds.ops import clip_grad_norm_


def parameters(device, dtypes=DTYPES, sizes=BOUNDARIES, factor=1.0) -> list[torch.nn.Parameter]:
    made = []
    for i, n in enumerate(sizes):
        dtype = dtypes[i % len(dtypes)]
        made.append(torch.nn.Parameter(torch.zeros(n, dtype=dtype, device=device)))
        made[-1].grad = (factor * values(n, dtype, n)).to(dtype).to(device)
    return made


def grads_of(params) -> list[torch.Tensor]:
    return [p.grad.detach().cpu().clone() for p in params if p.grad is not None]


@pytest.mark.parametrize("max_norm", [1e-3, 1.0, 50.0, 1e6])
@pytest.mark.parametrize("norm_type", [2.0, 2, math.inf, "inf"])
@pytest.mark.parametrize("dtypes", [[d] for d in DTYPES] + [DTYPES], ids=str)
def test_one_rounding_of_the_product(device, max_norm, norm_type, dtypes):
    params = parameters(device, dtypes)
    before = grads_of(params)
    norm = clip_grad_norm_(params, max_norm, norm_type)
    assert norm.shape == ()
    assert norm.dtype == torch.float32
    assert norm.device.type == device.type
    assert ulps(norm, exact(before, float(norm_type))) <= 2
    # torch's order: 1 / (norm + 1e-6) * max_norm, in fp32.
    factor = torch.clamp(max_norm / (norm.cpu() + 1e-6), max=1.0)
    for grad, old in zip(grads_of(params), before, strict=True):
        assert bits(grad) == bits((old.float() * factor).to(old.dtype))


@pytest.mark.parametrize("norm_type", [0.5, 1.0, 2.0, 3.0, 4.5, math.inf])
def test_float32_as_torch_does(device, norm_type):
    params, theirs = (parameters(d, [torch.float32], range(1, 40)) for d in (device, "cpu"))
    wanted = torch.nn.utils.clip_grad_norm_(theirs, 0.7, norm_type)
    norm = clip_grad_norm_(params, 0.7, norm_type)
    torch.testing.assert_close(norm.cpu(), wanted, rtol=1e-6, atol=0)
    for grad, other in zip(grads_of(params), grads_of(theirs), strict=True):
        torch.testing.assert_close(grad, other, rtol=1e-6, atol=0)


@pytest.mark.parametrize("form", [list, tuple, iter, lambda p: (x for x in p)])
def test_any_iterable_and_missing_gradients(device, form):
    params = parameters(device, sizes=[3, 4, 5])
    params[1].grad = None
    assert clip_grad_norm_(form(params), 1.0).item() > 1.0
    total = math.sqrt(sum(g.double().pow(2).sum().item() for g in grads_of(params)))
    assert total == pytest.approx(1.0, rel=1e-2)


def test_a_single_tensor(device):
    param = parameters(device, sizes=[9])[0]
    assert clip_grad_norm_(param, 0.5).item() > 0.5
    assert exact(grads_of([param])) == pytest.approx(0.5, rel=1e-5)


def test_no_gradients():
    norm = clip_grad_norm_([torch.nn.Parameter(torch.ones(3))], 1.0)
    assert norm.item() == 0.0
    assert clip_grad_norm_([], 1.0).item() == 0.0


def test_an_empty_generator_warns_as_torch_does():
    for function in (clip_grad_norm_, torch.nn.utils.clip_grad_norm_):
        with pytest.warns(UserWarning, match="`parameters` is an empty generator") as caught:
            function((p for p in []), 1.0)
        assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clip_grad_norm_([], 1.0)


def test_small_gradients_are_left_as_they_are(device):
    params = parameters(device, factor=1e-3)
    before = grads_of(params)
    clip_grad_norm_(params, 1e6)
    assert [bits(g) for g in grads_of(params)] == [bits(g) for g in before]


@pytest.mark.parametrize("foreach", [None, True, False])
def test_foreach_is_accepted(device, foreach):
    params = parameters(device, sizes=[5])
    assert clip_grad_norm_(params, 0.1, foreach=foreach).item() > 0.1


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("norm_type", [2.0, math.inf, 3.0])
def test_error_if_nonfinite(device, bad, norm_type):
    params = parameters(device, [torch.float32], [4, 5])
    params[0].grad[1] = bad
    before = grads_of(params)
    for function in (clip_grad_norm_, torch.nn.utils.clip_grad_norm_):
        with pytest.raises(RuntimeError, match="is non-finite, so it cannot be clipped") as raised:
            function(params, 1.0, norm_type, error_if_nonfinite=True)
        assert f"of order {norm_type}" in str(raised.value)
    assert [bits(g) for g in grads_of(params)] == [bits(g) for g in before]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("norm_type", [2.0, math.inf])
def test_non_finite_norms_scale_as_in_torch(device, bad, norm_type):
    params, theirs = (parameters(d, [torch.float32], [4, 5]) for d in (device, "cpu"))
    for some in (params, theirs):
        some[0].grad[1] = bad
        function = clip_grad_norm_ if some is params else torch.nn.utils.clip_grad_norm_
        norm = function(some, 1.0, norm_type).item()
        assert math.isnan(norm) if math.isnan(bad) else norm == math.inf
    for grad, other in zip(grads_of(params), grads_of(theirs), strict=True):
        torch.testing.assert_close(grad, other, rtol=0, atol=0, equal_nan=True)


def test_norms_that_overflow_elsewhere(device):
    params = parameters(device, [torch.float32], [100], factor=1e30)
    assert clip_grad_norm_(params, 1.0).item() == pytest.approx(
        exact([values(100, seed=100)]) * 1e30
    )
    assert exact(grads_of(params)) == pytest.approx(1.0, rel=1e-5)


def test_an_infinite_max_norm_measures_only(device):
    params = parameters(device, sizes=[4, 5])
    params[0].grad[0] = math.inf
    before = grads_of(params)
    assert clip_grad_norm_(params, math.inf).item() == math.inf
    assert [bits(g) for g in grads_of(params)] == [bits(g) for g in before]


def test_strided_gradients(device):
    param = torch.nn.Parameter(torch.zeros(6, 7, device=device))
    param.grad = values((7, 6)).to(device).t()
    before = param.grad.clone()
    norm = clip_grad_norm_([param], 1.0)
    assert param.grad.stride() == (1, 6)
    wanted = before.cpu() * torch.clamp(1.0 / (norm.cpu() + 1e-6), max=1.0)
    assert torch.equal(param.grad.cpu(), wanted)


def test_a_gradient_that_two_params_share(device):
    params = parameters(device, [torch.float32], [4, 4])
    params[1].grad = params[0].grad
    with pytest.raises(RuntimeError, match=r"tensors\[\d\] and tensors\[\d\] share memory"):
        clip_grad_norm_(params, 1e-3)


def test_grad_norm_of_scaled_gradients(device):
    op = torch.ops.mps_ds._grad_norm
    grads = [values(1000, seed=1).to(device), values(77, torch.bfloat16).to(device)]
    norm, found_inf, _coef = op(grads, None, 2.0, 2.0)
    for scale in (65536.0, 3.0, 2.0**-20, 2.0**100):
        divisor = torch.tensor(scale, device=device)
        for norm_type in (2.0, math.inf):
            scaled = op(grads, divisor, 2.0, norm_type)
            assert ulps(scaled[0], exact(grads, norm_type) / scale) <= 2
            assert scaled[1].item() == found_inf.item() == 0.0
            wanted = torch.clamp(2.0 / (scaled[0].cpu() + 1e-6), max=1.0)
            assert bits(scaled[2]) == bits(wanted)
    assert bits(op(grads, torch.ones((), device=device), 2.0, 2.0)[0]) == bits(norm)
    assert op(grads, None, math.inf, 2.0)[2].item() == 1.0


def test_grad_norm_beyond_float32_before_the_division(device):
    grads = [torch.full((400,), 3e38, device=device)]
    norm, found_inf, coef = torch.ops.mps_ds._grad_norm(
        grads, torch.tensor(65536.0, device=device), 1.0, 2.0
    )
    assert ulps(norm, exact(grads) / 65536) <= 2
    assert found_inf.item() == 0.0
    assert 0.0 < coef.item() < 1.0


def test_opcheck(device):
    grads = [values(5).to(device), values((2, 3), torch.float16).to(device).t()]
    scale = torch.tensor(8.0, device=device)
    ops = torch.ops.mps_ds
    torch.library.opcheck(ops._grad_norm.default, (grads, scale, 1.0, 2.0))
    torch.library.opcheck(ops._grad_norm.default, (grads, None, 1.0, math.inf))
    torch.library.opcheck(ops.multi_tensor_l2norm.default, (grads, 2.0, True))
    torch.library.opcheck(ops.multi_tensor_l2norm.default, (grads, math.inf, False))
    torch.library.opcheck(ops.multi_tensor_non_finite.default, (grads,))
    torch.library.opcheck(ops.norm_and_non_finite.default, (grads, [1, -1], 2, 2.0))
    torch.library.opcheck(ops.norm_and_non_finite.default, (grads, [0, 0], -1, 2.0))
