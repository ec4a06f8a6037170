"""adam_ over storage types, with amsgrad, copies, and scalars that are tensors."""

import adam_types as types
import numpy as np
import pytest
import torch
from adam_reference import Options
from adam_types import BFLOAT16, FLOAT16, FLOAT32

from mps_ds.ops import adam_, multi_tensor_adam

CHUNK = 1536  # ADAM_CHUNK of csrc/mps/kernels/adam_tables.h

needs_mps = pytest.mark.skipif(not torch.backends.mps.is_available(), reason="compares two devices")
every_combination = pytest.mark.parametrize(
    "combination", types.COMBINATIONS, ids=types.combination_id
)


def run(rows, step=1, **options):
    """One call for all rows."""
    names = {"max_exp_avg_sq": "max_exp_avg_sqs", "copy": "copies"}
    extra = {names[name]: [r.extra[name] for r in rows] for name in rows[0].extra}
    adam_(
        [r.param for r in rows],
        [r.grad for r in rows],
        [r.exp_avg for r in rows],
        [r.exp_avg_sq for r in rows],
        step,
        **{"lr": 1e-2, **options},
        **extra,
    )


def assert_same_bits(some, others):
    for a, b in zip(some, others, strict=True):
        np.testing.assert_array_equal(types.bits(a), types.bits(b))


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


# Stochastic rounding


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


# The call shape of apex and DeepSpeed


@pytest.mark.parametrize("combination", [(FLOAT32,) * 3, (FLOAT16,) * 3, (BFLOAT16,) * 3])
@pytest.mark.parametrize("where", ["device", "cpu"])
@pytest.mark.parametrize("adam_w_mode", [0, 1])
def test_multi_tensor_adam(device, combination, where, adam_w_mode):
    flag = torch.zeros(1, dtype=torch.int32, device=device if where == "device" else "cpu")
    before = types.row((3, 50), combination, device)
    after = before.copy()
    after.param.requires_grad_(True)  # a leaf, in grad mode

    def call():
        lists = [[after.grad], [after.param], [after.exp_avg], [after.exp_avg_sq]]
        multi_tensor_adam(2048 * 32, flag, lists, 1e-2, 0.9, 0.999, 1e-8, 2, adam_w_mode, 1, 0.1)

    call()
    options = Options(lr=1e-2, weight_decay=0.1, adam_w_mode=bool(adam_w_mode))
    types.assert_step(after, before, 2, options)
    stepped = after.copy()
    flag.fill_(1)
    call()
    assert_same_bits(after.written(), stepped.written())


@pytest.mark.parametrize("step", [np.int64(2), torch.tensor(2)])
def test_multi_tensor_adam_takes_any_whole_number_for_the_step(device, step):
    row = types.row(5, (FLOAT32,) * 3, device)
    other = row.copy()
    for r, number in ((row, step), (other, 2)):
        lists = [[r.grad], [r.param], [r.exp_avg], [r.exp_avg_sq]]
        multi_tensor_adam(1, None, lists, 1e-2, 0.9, 0.999, 1e-8, number, 1, 1, 0.0)
    assert_same_bits(row.written(), other.written())


def test_multi_tensor_adam_wants_four_lists():
    with pytest.raises(RuntimeError, match="tensor_lists has 3 lists"):
        multi_tensor_adam(1, None, [[], [], []], 0.1, 0.9, 0.999, 1e-8, 1, 1, 1, 0.0)


# Errors


def broken(**changes):
    """A call with two rows, one thing wrong in the second."""

    def call(device):
        rows = [types.row(6, (FLOAT32,) * 3, device, seed=i) for i in range(2)]
        options = {}
        for name, change in changes.items():
            if name in ("param", "grad", "exp_avg", "exp_avg_sq"):
                setattr(rows[1], name, change(getattr(rows[1], name)))
            else:
                options[name] = change(device, rows)
        before = [r.copy() for r in rows]
        try:
            run(rows, **options)
        finally:
            for row, old in zip(rows, before, strict=True):
                assert_same_bits(row.written(), old.written())

    return call


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (broken(param=lambda t: t.int()), r"params\[1\] is Int; accepted are torch.float32"),
        (broken(grad=lambda t: t.int()), r"grads\[1\] is Int; accepted are"),
        (
            broken(exp_avg=lambda t: t.half()),
            r"exp_avgs\[1\] is torch.float16, its param torch.float32; a state must be",
        ),
        (
            broken(param=lambda t: t.half(), exp_avg=lambda t: t.half()),
            r"exp_avg_sqs\[1\] is torch.float32, exp_avgs\[1\] torch.float16; .* one dtype",
        ),
        (
            broken(copies=lambda device, rows: [torch.zeros(6, device=device)] * 2),
            r"copies\[0\] is torch.float32 and params\[0\] torch.float32; a copy is torch.float16",
        ),
        (
            broken(max_exp_avg_sqs=lambda device, rows: [torch.zeros(6, device=device)]),
            "max_exp_avg_sqs has 1 entries",
        ),
        (
            broken(max_exp_avg_sqs=lambda device, rows: [r.exp_avg for r in rows]),
            r"share memory",
        ),
        (
            broken(grad_scale=lambda device, rows: torch.ones(2, device=device)),
            r"grad_scale has shape \(2,\); it must have one element",
        ),
        (
            broken(found_inf=lambda device, rows: torch.ones(1, dtype=torch.int64)),
            "found_inf is Long; accepted is torch.float32 or torch.int32",
        ),
        (broken(clip_value=lambda device, rows: -1.0), "clip_value is -1"),
        (
            broken(lr=lambda device, rows: torch.ones((), dtype=torch.float16, device=device)),
            r"lr_tensors\[0\] is torch.float16; accepted is torch.float32",
        ),
        (broken(lr=lambda device, rows: torch.tensor(-1.0)), "lr is -1"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_written(device, call, message):
    with pytest.raises(RuntimeError, match=message):
        call(device)


@needs_mps
@pytest.mark.parametrize("name", ["lr", "grad_scale", "found_inf", "clip_coef", "clip_value"])
def test_a_scalar_in_memory_that_is_written_is_refused(name):
    row = types.row(8, (FLOAT32,) * 3, "mps")
    before = row.copy()
    listed = r"lr_tensors\[0\]" if name == "lr" else name
    with pytest.raises(RuntimeError, match=rf"params\[0\] and {listed} share memory"):
        run([row], **{name: row.param[3:4]})
    assert_same_bits(row.written(), before.written())


@needs_mps
def test_scalars_beside_what_is_written_are_no_overlap():
    storage = torch.rand(9, device="mps")
    row = types.row(8, (FLOAT32,) * 3, "mps")
    other = row.copy()
    row.param = storage[:8].copy_(row.param)
    storage[8:].fill_(2.0)
    run([row], grad_scale=storage[8:])
    run([other], grad_scale=torch.tensor(2.0, device="mps"))
    assert_same_bits(row.written(), other.written())


@needs_mps
def test_a_plan_knows_its_groups_and_notices_another_dtype():
    from mps_ds.ops.adam import AdamPlan

    options = [0.1, 0.9, 0.99, 1e-8, 0.0, 1.0, 1.0, 0.0, float("inf")]
    rows = [types.row(4, (FLOAT16, FLOAT16, FLOAT16), "mps") for _ in range(2)]
    lists = [[getattr(r, n) for r in rows] for n in ("param", "exp_avg", "exp_avg_sq")]
    grads = [r.grad for r in rows]
    with pytest.raises(RuntimeError, match=r"groups\[1\] is -1; they count from 0"):
        AdamPlan(*lists, [0, -1])
    plan = AdamPlan(*lists, [0, 1])
    with pytest.raises(RuntimeError, match="options has 1 param groups, the plan 2"):
        plan.step(grads, [], [1, 1], options)
    assert plan.step(grads, [], [1, 1], options * 2)
    rows[0].param.data = rows[0].param.data.view(BFLOAT16)
    assert not plan.step(grads, [], [2, 2], options * 2)


def test_a_scalar_elsewhere_is_named(device):
    row = types.row(4, (FLOAT32,) * 3, device)
    with pytest.raises(RuntimeError, match=r"step is 4294967296; .* below 2\^32"):
        run([row], 2**32)
