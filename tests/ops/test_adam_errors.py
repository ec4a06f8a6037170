"""adam_ refuses what it cannot do, by name and position, before anything is written."""

import re

import adam_types as types
import pytest
import torch
from adam_calls import assert_same_bits, needs_mps, run
from adam_types import BFLOAT16, FLOAT16, FLOAT32

from mps_ds.ops import adam_

LISTS = ("params", "grads", "exp_avgs", "exp_avg_sqs")


def lists(device, shape=(4,), count=3):
    return {name: [torch.full(shape, 0.5, device=device) for _ in range(count)] for name in LISTS}


def check_refused(arguments, message, steps=1, lr=0.1, **numbers):
    """The call raises with `message` and leaves every tensor as it was."""
    before = {k: [t.clone() for t in v] for k, v in arguments.items()}
    with pytest.raises(RuntimeError, match=message):
        adam_(*(arguments[name] for name in LISTS), steps, lr=lr, **numbers)
    for name, tensors in arguments.items():
        for old, new in zip(before[name], tensors, strict=True):
            if not old.is_sparse:
                assert torch.equal(old, new), name


@pytest.mark.parametrize("name", LISTS[1:])
def test_lengths(device, name):
    arguments = lists(device)
    arguments[name].pop()
    check_refused(arguments, rf"{name} has 2 entries, params has 3")


def test_params_too_few(device):
    arguments = lists(device)
    arguments["params"].clear()
    check_refused(arguments, r"(grads|params) has \d entries, (params|grads) has \d")


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("dtype", [torch.int32, torch.complex64])
def test_dtypes(device, name, dtype):
    arguments = lists(device)
    arguments[name][1] = arguments[name][1].to(dtype)
    check_refused(arguments, rf"{name}\[1\] is \w+; accepted are torch.float32, torch.float16")


def test_float64_on_the_cpu():
    arguments = lists("cpu")
    arguments["grads"][0] = arguments["grads"][0].double()
    check_refused(arguments, r"grads\[0\] is Double")


@pytest.mark.parametrize("name", LISTS[1:])
def test_shapes(device, name):
    arguments = lists(device)
    arguments[name][2] = torch.zeros(2, 2, device=device)
    check_refused(arguments, rf"{name}\[2\] has shape \(2, 2\), params\[2\] has \(4,\)")


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.skipif(not torch.backends.mps.is_available(), reason="needs two devices")
def test_mixed_devices(name):
    arguments = lists("mps")
    arguments[name][1] = torch.zeros(4)
    check_refused(
        arguments, r"\[\d\] is on (cpu|mps); all tensors of this call must be on (mps|cpu)"
    )


def test_meta_tensors():
    # A fake answers for meta tensors under torch.compile; nothing is computed.
    arguments = lists("meta")
    assert adam_(*arguments.values(), 1, lr=0.1) is None


SCALARS = ["lr", "grad_scale", "found_inf", "clip_coef", "clip_value"]


@pytest.mark.parametrize("name", SCALARS)
def test_a_scalar_on_meta_beside_real_tensors(device, name):
    # PyTorch asks the fake, which would leave everything as it is.
    listed = "lr_tensors[0]" if name == "lr" else name
    check_refused(
        lists(device),
        rf"{re.escape(listed)} is on meta, other tensors of this call are not",
        **{name: torch.ones((), device="meta")},
    )


@pytest.mark.parametrize("name", SCALARS)
@pytest.mark.skipif(not torch.backends.mps.is_available(), reason="needs two devices")
def test_a_scalar_on_mps_beside_cpu_tensors(name):
    listed = "lr_tensors[0]" if name == "lr" else name
    check_refused(
        lists("cpu"),
        rf"{re.escape(listed)} is on mps",
        **{name: torch.ones((), device="mps")},
    )


def test_sparse_gradient(device):
    arguments = lists("cpu")  # PyTorch has no sparse tensors on mps
    arguments["grads"][1] = torch.ones(4).to_sparse()
    check_refused(arguments, r"grads\[1\] is sparse; accepted are dense tensors")


@pytest.mark.parametrize("name", LISTS)
def test_memory_shared_with_an_output(device, name):
    arguments = lists(device)
    other = "exp_avgs" if name != "exp_avgs" else "params"
    arguments[name][2] = arguments[other][0]
    check_refused(arguments, r"share memory, and \w+\[\d\] is written")


def test_partly_overlapping_outputs(device):
    arguments = lists(device, count=2)
    flat = torch.zeros(7, device=device)
    arguments["params"] = [flat[:4], flat[3:]]
    check_refused(arguments, r"params\[1\] and params\[0\] share memory")


def test_overlapping_strided_outputs(device):
    arguments = lists(device, count=2)
    flat = torch.zeros(10, device=device)
    arguments["exp_avgs"] = [flat[0:8:2], flat[2:10:2]]
    check_refused(arguments, r"exp_avgs\[\d\] and exp_avgs\[\d\] share memory")


def test_an_output_with_one_element_in_several_places(device):
    arguments = lists(device, count=1)
    arguments["exp_avg_sqs"] = [torch.zeros(1, device=device).expand(4)]
    check_refused(arguments, r"exp_avg_sqs\[0\] is written, but dimension 0 .* has stride 0")
    arguments = lists(device, shape=(2, 2), count=1)
    arguments["exp_avg_sqs"] = [torch.zeros(5, device=device).as_strided((2, 2), (1, 1))]
    check_refused(arguments, r"exp_avg_sqs\[0\] and exp_avg_sqs\[0\] share memory")
    arguments = lists(device, shape=(2, 2, 2), count=1)  # spans as many elements as it has
    arguments["exp_avg_sqs"] = [torch.zeros(8, device=device).as_strided((2, 2, 2), (1, 1, 5))]
    check_refused(arguments, r"exp_avg_sqs\[0\] and exp_avg_sqs\[0\] share memory")


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"lr": -0.1}, r"lr is -0.1; it must be finite and >= 0"),
        ({"lr": float("nan")}, r"lr is nan"),
        ({"beta1": 1.0}, r"beta1 is 1; it must be in \[0, 1\)"),
        ({"beta1": -0.1}, r"beta1 is -0.1"),
        ({"beta2": 1.5}, r"beta2 is 1.5"),
        ({"beta2": float("nan")}, r"beta2 is nan"),
        ({"eps": -1e-8}, r"eps is -1e-08"),
        ({"eps": 1e-39}, r"eps is 1e-39; it must be 0, or finite and at least 1.2e-38"),
        ({"weight_decay": float("inf")}, r"weight_decay is inf"),
        ({"steps": 0}, r"step is 0; it counts from 1"),
        ({"steps": [1, 1, -3]}, r"step is -3"),
        ({"steps": [1, 2]}, r"steps has 2 entries, params has 3"),
    ],
)
def test_numbers(device, numbers, message):
    check_refused(lists(device), message, **numbers)


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


def test_a_step_count_beyond_32_bits_is_refused(device):
    row = types.row(4, (FLOAT32,) * 3, device)
    with pytest.raises(RuntimeError, match=r"step is 4294967296; .* below 2\^32"):
        run([row], 2**32)
