"""adam_ with scale, overflow, clipping, lr and step counts that are tensors."""

import adam_types as types
import numpy as np
import pytest
import torch
from adam_calls import CHUNK, assert_same_bits, every_combination, run
from adam_reference import Options
from adam_types import BFLOAT16, FLOAT16, FLOAT32


@every_combination
def test_gradients_are_unscaled_and_clipped_within_the_step(device, combination):
    before = types.row(3000, combination, device)
    after = before.copy()
    run(
        [after],
        2,
        grad_scale=torch.tensor([1024.0], device=device),
        clip_coef=torch.tensor(0.3, device=device),
    )
    factor = float(np.float32(0.3)) / 1024
    types.assert_step(after, before, 2, Options(lr=1e-2), factor)


@pytest.mark.parametrize("clip_value", [0.5, torch.tensor(0.5)])
def test_clip_value_bounds_each_element_after_scaling(device, clip_value):
    if isinstance(clip_value, torch.Tensor):
        clip_value = clip_value.to(device)
    for combination in ((FLOAT32,) * 3, (BFLOAT16, FLOAT16, BFLOAT16)):
        row = types.row(3000, combination, device)
        row.grad[7] = torch.inf
        row.grad[8] = -torch.inf
        clipped = row.copy()
        clipped.grad = (row.grad.float() / 2).clamp(-0.5, 0.5)
        run([row], 2, grad_scale=torch.tensor(2.0, device=device), clip_value=clip_value)
        run([clipped], 2)
        assert_same_bits(row.written(), clipped.written())


def test_clip_value_lets_nan_through(device):
    row = types.row(5, (FLOAT32,) * 3, device)
    row.grad[2] = torch.nan
    run([row], clip_value=1.0)
    assert row.param.isnan().tolist() == [False, False, True, False, False]


@every_combination
@pytest.mark.parametrize("flag", [torch.tensor(1.0), torch.tensor([3], dtype=torch.int32)])
def test_with_found_inf_nothing_is_written(device, combination, flag):
    # pytorch#186360
    rows = [types.row(n, combination, device, max_exp_avg_sq=combination[2]) for n in (9, 70)]
    before = [r.copy() for r in rows]
    counts = [torch.tensor(4.0, device=device) for _ in rows]
    for where in (device, torch.device("cpu")):
        run(rows, 5, found_inf=flag.to(where))
        run(rows, counts, found_inf=flag.to(where))
    for row, old in zip(rows, before, strict=True):
        assert_same_bits(row.written(), old.written())
    assert [c.item() for c in counts] == [4.0, 4.0]


def test_without_found_inf_the_step_is_the_same(device):
    plain, flagged = (types.row(100, (FLOAT32,) * 3, device) for _ in range(2))
    run([plain])
    run([flagged], found_inf=torch.zeros((), device=device))
    assert_same_bits(plain.written(), flagged.written())


def test_lr_may_be_a_tensor(device):
    for where in (device, torch.device("cpu")):
        before = types.row(3000, (FLOAT32,) * 3, device)
        after = before.copy()
        lr = torch.tensor(0.0123, device=where)
        run([after], 7, lr=lr, weight_decay=0.1)
        types.assert_step(after, before, 7, Options(lr=lr.item(), weight_decay=0.1))


@pytest.mark.parametrize("bias_correction", [True, False])
@pytest.mark.parametrize("count", [0, 1, 9, 12_345, 16_000_000])
def test_step_counts_may_be_on_the_device(device, bias_correction, count):
    options = Options(lr=1e-2, bias_correction=bias_correction)
    before = [types.row(n, (FLOAT32,) * 3, device) for n in (3000, 0, CHUNK + 1)]
    after = [row.copy() for row in before]
    counts = [torch.tensor(float(count + i), device=device) for i in range(3)]
    run(after, counts, bias_correction=bias_correction)
    assert [c.item() for c in counts] == [count + 1, count + 2, count + 3]
    for i in (0, 2):
        types.assert_step(after[i], before[i], count + i + 1, options)


@pytest.mark.parametrize("betas", [(0.0, 0.0), (0.5, 0.999), (0.9, 0.9999999)])
def test_corrections_on_the_device_equal_float64(device, betas):
    options = Options(lr=1e-2, beta1=betas[0], beta2=betas[1])
    for count in (0, 1, 2, 30, 1000):
        before = types.row(500, (FLOAT32,) * 3, device)
        after = before.copy()
        run([after], [torch.tensor(float(count), device=device)], beta1=betas[0], beta2=betas[1])
        types.assert_step(after, before, count + 1, options)
