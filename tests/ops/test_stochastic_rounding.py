"""Stochastic rounding of bfloat16 params: the documented bits, and right on average."""

import adam_types as types
import numpy as np
import pytest
import torch
from adam_calls import assert_same_bits, run
from adam_types import BFLOAT16, FLOAT16, FLOAT32


def philox(counter, key):
    """Philox 4x32-10 on arrays of uint32; written from the paper."""
    mask = np.uint64(0xFFFFFFFF)
    c = [np.asarray(x, np.uint64) for x in counter]
    k = [np.uint64(x) for x in key]
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ k[0], p1 & mask, (p0 >> np.uint64(32)) ^ c[3] ^ k[1],
             p0 & mask]  # fmt: skip
        k = [(k[0] + np.uint64(0x9E3779B9)) & mask, (k[1] + np.uint64(0xBB67AE85)) & mask]
    return c


def test_the_reference_generator_gives_the_published_numbers():
    # Random123's known answers.
    zero = [int(x) for x in philox([0, 0, 0, 0], [0, 0])]
    assert zero == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    ones = [int(x) for x in philox([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2)]
    assert ones == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


def rounded_at_random(param: torch.Tensor, seed: int, index: int, step: int) -> torch.Tensor:
    """fp32 params rounded to bfloat16 as the documentation says."""
    flat = param.detach().cpu().reshape(-1)
    element = np.arange(flat.numel(), dtype=np.uint64)
    block = element // np.uint64(8)
    words = philox([block, 0, index, step], [seed & 0xFFFFFFFF, seed >> 32])
    lane = (element % np.uint64(8)).astype(int)
    word = np.choose(lane // 2, [w + np.zeros_like(block) for w in words])
    random = (word >> (16 * (lane % 2)).astype(np.uint64)) & np.uint64(0xFFFF)
    raw = flat.view(torch.int32).numpy().view(np.uint32).astype(np.uint64)
    up = ((raw + random) & np.uint64(0xFFFF0000)).astype(np.uint32).view(np.float32)
    return torch.tensor(up).reshape(param.shape).to(BFLOAT16)


@pytest.mark.parametrize("state", [FLOAT32, BFLOAT16])
@pytest.mark.parametrize("layout", ["dense", "odd offset", "transposed"])
def test_stochastic_rounding_takes_the_documented_bits(device, state, layout):
    seed = 0x1234567_89ABCDEF
    rows = [types.row((9, 1003), (BFLOAT16, BFLOAT16, state), device, seed=i) for i in range(2)]
    exact = []
    for row in rows:
        # In fp32 storage the same plain arithmetic is not used: compute it from the parts.
        exact.append(row.copy())
    if layout == "odd offset":
        for row in rows:
            storage = torch.zeros(1 + row.param.numel(), dtype=BFLOAT16, device=device)
            row.param = storage[1:].view(9, 1003).copy_(row.param)
    if layout == "transposed":
        for row in rows:
            row.grad = row.grad.t().contiguous().t()
    run(rows, 6, stochastic_rounding=seed)
    again = [row.copy() for row in exact]
    run(again, 6, stochastic_rounding=seed)
    for row, same in zip(rows, again, strict=True):
        assert_same_bits(row.written(), same.written())
    for index, (row, before) in enumerate(zip(rows, exact, strict=True)):
        want = plain_update(before, 6)
        assert_same_bits([row.param], [rounded_at_random(want, seed, index, 6)])


def plain_update(row, step: int) -> torch.Tensor:
    """The param that a step stores, before it is rounded: plain fp32, fused as written."""
    cpu = row.copy("cpu")
    p, g, m, v = (t.float() for t in (cpu.param, cpu.grad, cpu.exp_avg, cpu.exp_avg_sq))

    def fma(a, b, c):  # one rounding: products of two floats are exact in float64
        # and the sum in float64 is good to 2^-53: double rounding changes 1 of 2^29 elements
        return (a.double() * b.double() + c.double()).float()

    def single(x):
        return torch.tensor(x, dtype=torch.float64).float()

    m = fma(single(0.9), m, single(1 - 0.9) * g)
    v = fma(single(0.999), v, (single(1 - 0.999) * g) * g)
    denominator = fma(v.sqrt(), single(1 / np.sqrt(1 - 0.999**step)), single(1e-8))
    return fma(-single(1e-2 / (1 - 0.9**step)), m / denominator, p)


def test_stochastic_rounding_is_right_on_average(device):
    row = types.row(20_000, (BFLOAT16, BFLOAT16, FLOAT32), device)
    row.param.fill_(1.0)
    row.grad.fill_(1.0)
    row.exp_avg.zero_(), row.exp_avg_sq.zero_()
    run([row], lr=1e-3, stochastic_rounding=1)
    # 1 - 0.001 lies between 1 - 2^-8 and 1: down with probability 0.256.
    down = (row.param.cpu() != 1.0).double().mean().item()
    assert set(row.param.tolist()) == {1.0, 1 - 2.0**-8}
    sigma = np.sqrt(0.256 * 0.744 / 20_000)
    assert abs(down - 0.001 * 2**8) < 5 * sigma


def test_stochastic_rounding_depends_on_seed_and_step(device):
    results = []
    for seed, step in ((1, 1), (2, 1), (1, 2), (1 << 40, 1)):
        row = types.row(500, (BFLOAT16, BFLOAT16, FLOAT32), device)
        run([row], step, stochastic_rounding=seed, bias_correction=False)
        results.append(types.bits(row.param).tobytes())
    assert len(set(results)) == 4


def test_other_params_are_rounded_to_the_nearest(device):
    combinations = [(FLOAT32,) * 3, (FLOAT16,) * 3, (BFLOAT16,) * 3]
    rows = [types.row(50, combination, device) for combination in combinations]
    others = [row.copy() for row in rows]
    run(rows, stochastic_rounding=1)
    run(others)
    for row, other in zip(rows[:2], others[:2], strict=True):
        assert_same_bits(row.written(), other.written())
    assert not torch.equal(rows[2].param, others[2].param)
