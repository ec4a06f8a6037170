"""adam_ over storage types, with amsgrad and copies."""

import adam_types as types
import numpy as np
import pytest
import torch
from adam_calls import CHUNK, assert_same_bits, every_combination, needs_mps, run
from adam_reference import Options
from adam_types import BFLOAT16, FLOAT16, FLOAT32


@every_combination
@pytest.mark.parametrize("adam_w_mode", [True, False])
def test_every_combination_equals_float64(device, combination, adam_w_mode):
    options = Options(lr=1e-2, weight_decay=0.1, adam_w_mode=adam_w_mode)
    for size in (0, 1, 5, 8, 13, CHUNK + 13):
        before = types.row(size, combination, device, seed=size)
        after = before.copy()
        run([after], 3, **vars(options))
        types.assert_step(after, before, 3, options)


@needs_mps
@every_combination
@pytest.mark.parametrize("amsgrad", [False, True])
def test_mps_and_cpu_agree_bit_for_bit(combination, amsgrad):
    extra = {"max_exp_avg_sq": combination[2]} if amsgrad else {}
    results = []
    for device in ("mps", "cpu"):
        rows = [types.row((3, CHUNK // 2 + 5), combination, device, **extra)]
        rows.append(types.row((7, 4, 5), combination, device, **extra))
        rows[1].grad = rows[1].grad.permute(2, 1, 0).contiguous().permute(2, 1, 0)
        for step in (1, 2, 3):
            run(rows, step, weight_decay=0.1, maximize=amsgrad)
        results.append([t for r in rows for t in r.written()])
    assert_same_bits(*results)


@pytest.mark.parametrize("copy", [FLOAT16, BFLOAT16])
@pytest.mark.parametrize("grad", types.TYPES)
def test_the_copy_is_the_new_param_rounded_once(device, grad, copy):
    row = types.row((5, 1000), (FLOAT32, grad, FLOAT32), device, copy=copy)
    run([row])
    assert_same_bits([row.extra["copy"]], [row.param.to(copy)])


def test_a_copy_may_be_strided_and_misaligned(device):
    row = types.row((6, 50), (FLOAT32, BFLOAT16, FLOAT32), device)
    storage = torch.zeros(1 + 6 * 50, dtype=BFLOAT16, device=device)
    row.extra["copy"] = storage[1:].view(50, 6).t()
    run([row])
    assert_same_bits([row.extra["copy"]], [row.param.to(BFLOAT16)])
    assert storage[0].item() == 0


@every_combination
def test_amsgrad_divides_by_the_largest_square(device, combination):
    before = types.row(2000, combination, device, max_exp_avg_sq=combination[2])
    after, plain = before.copy(), before.copy()
    del plain.extra["max_exp_avg_sq"]
    run([after], 4)
    run([plain], 4)
    assert_same_bits([after.exp_avg, after.exp_avg_sq], [plain.exp_avg, plain.exp_avg_sq])
    largest = torch.maximum(before.extra["max_exp_avg_sq"], plain.exp_avg_sq)
    assert_same_bits([after.extra["max_exp_avg_sq"]], [largest])
    # Where the new square is the largest, amsgrad changes nothing.
    new = types.float64(plain.exp_avg_sq) > types.float64(before.extra["max_exp_avg_sq"])
    assert 0 < new.sum() < new.size
    np.testing.assert_array_equal(types.bits(after.param)[new], types.bits(plain.param)[new])
    update = np.abs(types.float64(after.param) - types.float64(before.param))
    other = np.abs(types.float64(plain.param) - types.float64(before.param))
    assert (update[~new] <= other[~new]).all()


def test_amsgrad_equals_float64(device):
    before = types.row(5000, (FLOAT32, FLOAT32, FLOAT32), device, max_exp_avg_sq=FLOAT32)
    after = before.copy()
    run([after], 4)
    grad = types.float64(before.grad)
    mean = 0.9 * types.float64(before.exp_avg) + (1 - 0.9) * grad
    square = 0.999 * types.float64(before.exp_avg_sq) + (1 - 0.999) * grad**2
    largest = np.maximum(types.float64(before.extra["max_exp_avg_sq"]), square)
    step_size, root_correction = 1e-2 / (1 - 0.9**4), np.sqrt(1 - 0.999**4)
    param = types.float64(before.param)
    want = param - step_size * mean / (np.sqrt(largest) / root_correction + 1e-8)
    # One rounding, and pairs of floats before it.
    term = np.maximum(np.abs(param), np.abs(want))
    allowed = 0.5 * types.ulp(want, FLOAT32) + 2.0**-18 * types.ulp(term, FLOAT32)
    assert (np.abs(types.float64(after.param) - want) <= allowed).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_largest_square_that_is_not_finite_stays(device, value):
    for combination in ((FLOAT32,) * 3, (BFLOAT16,) * 3):
        row = types.row(9, combination, device, max_exp_avg_sq=combination[2])
        row.extra["max_exp_avg_sq"][3] = value
        run([row])
        kept = types.float64(row.extra["max_exp_avg_sq"])
        assert np.isnan(kept[3]) if np.isnan(value) else kept[3] == value
        assert np.isfinite(np.delete(kept, 3)).all()


def test_one_call_takes_mixed_types(device):
    rows = [types.row(100 + i, c, device, seed=i) for i, c in enumerate(types.COMBINATIONS)]
    apart = [row.copy() for row in rows]
    run(rows, 2)
    for row in apart:
        run([row], 2)
    for row, alone in zip(rows, apart, strict=True):
        assert_same_bits(row.written(), alone.written())


@needs_mps
def test_one_dispatch_for_each_combination():
    from mps_ds import softmps

    torch.mps.synchronize()
    for combinations, dispatches in (([types.COMBINATIONS[0]] * 50, 1), (types.COMBINATIONS, 15)):
        rows = [types.row(10, combination, "mps") for combination in combinations]
        torch.mps.synchronize()
        softmps.reset_counters()
        run(rows, 2, grad_scale=torch.tensor(2.0), found_inf=torch.zeros((), device="mps"))
        torch.mps.synchronize()
        assert softmps.counters()["kernels"]["adam"]["dispatches"] == dispatches


def test_fp16_params_with_no_gradient_and_a_tiny_eps_stay(device):
    # optax#1754
    row = types.row(64, (FLOAT16, FLOAT16, FLOAT16), device)
    for tensor in (row.grad, row.exp_avg, row.exp_avg_sq):
        tensor.zero_()
    param = row.param.clone()
    for step in (1, 2, 3):
        run([row], step, eps=1e-8)
    assert_same_bits([row.param], [param])


def test_bf16_params_follow_fp32_arithmetic_for_1000_steps(device):
    # apex#1728
    row = types.row(256, (BFLOAT16, BFLOAT16, FLOAT32), device)
    row.exp_avg.zero_(), row.exp_avg_sq.zero_(), row.grad.fill_(1e-3)
    param = types.float64(row.param)
    grad = types.float64(row.grad)
    mean, square = np.zeros(256), np.zeros(256)
    for step in range(1, 1001):
        before = types.float64(row.param)
        run([row], step, lr=1e-3)
        mean = 0.9 * mean + 0.1 * grad
        square = 0.999 * square + 0.001 * grad**2
        update = 1e-3 / (1 - 0.9**step) * mean / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
        want = before - update
        error = np.abs(types.float64(row.param) - want) / types.ulp(want, BFLOAT16)
        assert error.max() <= 0.5 + 2.0**-10
    assert (types.float64(row.param) != param).any()
