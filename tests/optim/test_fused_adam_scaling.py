"""FusedAdam with torch.amp.GradScaler and with clipping inside the step."""

import math

import adam_types as types
import numpy as np
import pytest
import torch
from adam_types import BFLOAT16, FLOAT16, FLOAT32
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from mps_ds.optim import FusedAdam

SHAPES = ((5, 3), (7,), (), (0, 2), (40, 30))


def make_params(device, dtype=FLOAT32):
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(s, generator=generator).to(device, dtype)) for s in SHAPES]


def set_grads(params, seed, factor=1.0, value=None):
    generator = torch.Generator().manual_seed(seed)
    for param in params:
        grad = factor * torch.randn(param.shape, generator=generator)
        param.grad = grad.to(param.device, param.dtype)
    if value is not None:
        params[1].grad[3] = value


def new_scaler(device, **options):
    scaler = torch.amp.GradScaler(device.type, init_scale=1024.0, **options)
    scaler.scale(torch.ones((), device=device))  # makes the scale
    return scaler


def assert_same_params(some, others):
    for a, b in zip(some, others, strict=True):
        np.testing.assert_array_equal(types.bits(a), types.bits(b))


def counts(optimizer, params):
    return [float(optimizer.state[p]["step"]) for p in params]


@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16])
def test_clipping_within_the_step_equals_clipping_before_it(device, dtype):
    params, others = make_params(device, dtype), make_params(device, dtype)
    fused, plain = FusedAdam(params, lr=1e-2), FusedAdam(others, lr=1e-2)
    for step in range(4):
        set_grads(params, step, factor=10.0**step)
        set_grads(others, step, factor=10.0**step)
        grads = [p.grad.clone() for p in params]
        fused.step(max_norm=1.0)
        norm = clip_grad_norm_(others, 1.0)
        assert all(torch.equal(a, p.grad) for a, p in zip(grads, params, strict=True))
        torch.testing.assert_close(fused.grad_norm, norm.float(), rtol=1e-2 if dtype != FLOAT32
                                   else 1e-6, atol=0)  # fmt: skip
        plain.step()
    for a, b in zip(params, others, strict=True):
        tolerance = 1e-6 if dtype == FLOAT32 else 2.0**-6
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def test_clipping_by_value_within_the_step(device):
    params, others = make_params(device), make_params(device)
    fused, plain = FusedAdam(params, lr=1e-2), FusedAdam(others, lr=1e-2)
    set_grads(params, 1)
    set_grads(others, 1)
    fused.step(clip_value=0.5)
    clip_grad_value_(others, 0.5)
    plain.step()
    assert_same_params(params, others)


def test_the_norm_may_be_that_of_the_largest(device):
    params = make_params(device)
    optimizer = FusedAdam(params)
    set_grads(params, 1)
    optimizer.step(max_norm=1.0, norm_type=math.inf)
    largest = max(p.grad.abs().max().item() for p in params if p.numel())
    assert optimizer.grad_norm.item() == largest


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_without_a_scaler_a_norm_that_is_not_finite_spreads_as_in_torch(device, value):
    params, others = make_params(device), make_params(device)
    fused, plain = FusedAdam(params), FusedAdam(others)
    set_grads(params, 1, value=value)
    set_grads(others, 1, value=value)
    fused.step(max_norm=1.0)
    clip_grad_norm_(others, 1.0)
    plain.step()
    for a, b in zip(params, others, strict=True):
        assert torch.equal(a.isnan(), b.isnan())


@pytest.mark.parametrize("max_norm", [None, 0.7])
@pytest.mark.parametrize("way", ["scaler=", "amp scaling", "unscale_ first", "stock"])
def test_a_scaler_changes_nothing_but_skips_overflows(device, way, max_norm):
    if way == "amp scaling" and max_norm is not None:
        pytest.skip("GradScaler.step hands no norm over: see the next test")
    params, others = make_params(device), make_params(device)
    fused = FusedAdam(params, lr=1e-2, step_supports_amp_scaling=way == "amp scaling")
    plain = FusedAdam(others, lr=1e-2)
    scaler = new_scaler(device, growth_interval=3)
    scales = []
    for step in range(8):
        overflows = step in (0, 3)
        scale = scaler.get_scale()
        set_grads(params, step, factor=scale, value=math.inf if overflows else None)
        if way == "scaler=":
            fused.step(scaler=scaler, max_norm=max_norm)
        elif way == "unscale_ first":
            scaler.unscale_(fused)
            fused.step(scaler=scaler, max_norm=max_norm)
        else:
            if max_norm is not None:
                scaler.unscale_(fused)
                clip_grad_norm_(params, max_norm)
            scaler.step(fused)
        scaler.update()
        scales.append(scaler.get_scale())
        if not overflows:
            set_grads(others, step)
            if max_norm is not None:
                clip_grad_norm_(others, max_norm)
            plain.step()
    assert scales == [512, 512, 512, 256, 256, 256, 512, 512]
    assert counts(fused, params) == counts(plain, others) == [6.0] * len(SHAPES)
    for a, b in zip(params, others, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


def test_amp_scaling_and_clipping_through_the_scaler(device):
    params, others = make_params(device), make_params(device)
    fused = FusedAdam(params, lr=1e-2, step_supports_amp_scaling=True)
    plain = FusedAdam(others, lr=1e-2)
    scaler = new_scaler(device)
    for step in range(3):
        set_grads(params, step, factor=scaler.get_scale())
        set_grads(others, step)
        scaler.step(fused, max_norm=0.7)
        scaler.update()
        clip_grad_norm_(others, 0.7)
        plain.step()
    for a, b in zip(params, others, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


def test_amp_scaling_is_off_unless_asked_for(device):
    # Stock Lightning refuses to clip with it on.
    params = make_params(device)
    assert not FusedAdam(params)._step_supports_amp_scaling
    assert FusedAdam(params, step_supports_amp_scaling=True)._step_supports_amp_scaling
    assert not hasattr(FusedAdam, "_step_supports_amp_scaling")


def test_fp16_gradients_are_unscaled_within_the_step(device):
    # GradScaler.unscale_ refuses them.
    params = make_params(device, FLOAT16)
    others = make_params(device, FLOAT16)
    fused, plain = FusedAdam(params, lr=1e-2), FusedAdam(others, lr=1e-2)
    scaler = torch.amp.GradScaler(device.type, init_scale=8.0)
    scaler.scale(torch.ones((), device=device))
    set_grads(params, 1, factor=8.0)
    set_grads(others, 1)
    for param, other in zip(params, others, strict=True):
        other.grad = (param.grad.float() / 8).half()
    fused.step(scaler=scaler)
    plain.step()
    for a, b in zip(params, others, strict=True):
        torch.testing.assert_close(a, b, rtol=2.0**-9, atol=2.0**-12)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_skipped_step_writes_nothing(device, value):
    params = make_params(device)
    optimizer = FusedAdam(params, lr=1e-2, amsgrad=True)
    scaler = new_scaler(device)
    set_grads(params, 0, factor=1024.0)
    optimizer.step(scaler=scaler)
    scaler.update()
    before = [types.bits(t).copy() for p in params for t in (p, *_states(optimizer, p))]
    set_grads(params, 1, value=value)
    optimizer.step(scaler=scaler, max_norm=1.0)
    scaler.update()
    after = [types.bits(t) for p in params for t in (p, *_states(optimizer, p))]
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)
    assert scaler.get_scale() == 512
    assert counts(optimizer, params) == [1.0] * len(SHAPES)


def _states(optimizer, param):
    return [optimizer.state[param][key] for key in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")]


def test_a_disabled_scaler_is_no_scaler(device):
    params, others = make_params(device), make_params(device)
    fused, plain = FusedAdam(params), FusedAdam(others)
    set_grads(params, 0)
    set_grads(others, 0)
    fused.step(scaler=torch.amp.GradScaler(device.type, enabled=False))
    plain.step()
    assert_same_params(params, others)


def test_a_training_loop_goes_on_from_a_checkpoint_taken_under_a_scaler(device):
    trajectories = []
    for resume in (False, True):
        params = make_params(device)
        optimizer, scaler = FusedAdam(params, lr=1e-2), new_scaler(device)
        for step in range(6):
            if resume and step == 3:
                saved, saved_scaler = optimizer.state_dict(), scaler.state_dict()
                optimizer, scaler = FusedAdam(params, lr=1e-2), new_scaler(device)
                optimizer.load_state_dict(saved)
                scaler.load_state_dict(saved_scaler)
            value = math.inf if step == 1 else None
            set_grads(params, step, factor=1024.0, value=value)
            optimizer.step(scaler=scaler, max_norm=5.0)
            scaler.update()
        assert counts(optimizer, params) == [5.0] * len(SHAPES)
        trajectories.append([types.bits(p) for p in params])
    for a, b in zip(*trajectories, strict=True):
        np.testing.assert_array_equal(a, b)


def test_misuse(device):
    params = make_params(device)
    optimizer = FusedAdam(params)
    set_grads(params, 0)
    with pytest.raises(ValueError, match=r"max_norm is -1\.0; it must be >= 0"):
        optimizer.step(max_norm=-1.0)
    with pytest.raises(ValueError, match=r"norm_type is 1\.0; accepted are 2 and inf"):
        optimizer.step(max_norm=1.0, norm_type=1.0)
    with pytest.raises(RuntimeError, match="there is no scale yet"):
        optimizer.step(scaler=torch.amp.GradScaler(device.type))
    scaler = new_scaler(device)
    optimizer.step(scaler=scaler)
    with pytest.raises(RuntimeError, match="already been called since the last update"):
        optimizer.step(scaler=scaler)


def test_an_optimizer_without_gradients_under_amp_scaling(device):
    params = [nn.Parameter(torch.ones(3, device=device)) for _ in range(2)]
    first, second = (FusedAdam([p], step_supports_amp_scaling=True) for p in params)
    scaler = new_scaler(device)
    params[0].grad = torch.ones(3, device=device)
    scaler.step(first)
    scaler.step(second)
    scaler.update()
    assert not second.state


def test_a_scale_on_the_cpu_is_taken(device):
    param, other = (nn.Parameter(torch.ones(3, device=device)) for _ in range(2))
    optimizer, plain = FusedAdam([param]), FusedAdam([other])
    scaler = torch.amp.GradScaler(device.type, init_scale=8.0)
    scaler.scale((param * 2).sum().cpu()).backward()
    optimizer.step(scaler=scaler)
    other.grad = torch.full((3,), 2.0, device=device)
    plain.step()
    assert_same_params([param], [other])


def test_the_norm_is_that_of_the_last_step(device):
    params = make_params(device)
    optimizer = FusedAdam(params)
    set_grads(params, 0)
    optimizer.step(max_norm=1.0)
    assert optimizer.grad_norm is not None
    optimizer.step()
    assert optimizer.grad_norm is None


def test_a_bad_bound_changes_nothing(device):
    params = make_params(device)
    optimizer = FusedAdam(params)
    set_grads(params, 0)
    with pytest.raises(ValueError, match=r"clip_value is -1\.0; it must be >= 0"):
        optimizer.step(clip_value=-1.0)
    assert not optimizer.state
