"""cpu_adam_ against float64: types, layouts, options; what it refuses; what it tells autograd."""

import functools
import itertools

import pytest
import torch
from adam_plain_reference import assert_bounded, plain_step
from adam_reference import Options

from mps_ds.ops.cpu_adam import backends, cpu_adam_

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
TYPES = [
    (param, grad, state)
    for param, grad in itertools.product((F32, F16, BF16), repeat=2)
    for state in dict.fromkeys((F32, param))
]


def make(shape, types=(F32, F32, F32), seed: int = 0) -> list[torch.Tensor]:
    """Param, grad, exp_avg, exp_avg_sq of ordinary sizes."""
    generator = torch.Generator().manual_seed(seed)
    normal = functools.partial(torch.randn, shape, generator=generator)
    param, grad, state = types
    return [
        normal().to(param),
        normal().to(grad),
        (0.1 * normal()).to(state),
        (0.01 * torch.rand(shape, generator=generator)).to(state),
    ]


def copies_of(tensors) -> list[torch.Tensor]:
    return [t.clone(memory_format=torch.preserve_format) for t in tensors]


def run(tensors, step: int, options: Options, **more) -> None:
    param, grad, exp_avg, exp_avg_sq = ([t] for t in tensors[:4])
    largest = [tensors[4]] if len(tensors) > 4 else []
    cpu_adam_(
        param, grad, exp_avg, exp_avg_sq, step, max_exp_avg_sqs=largest, **vars(options), **more
    )


def check(tensors, step: int, options: Options, grad_scale: float = 1.0) -> None:
    before = copies_of(tensors)
    run(tensors, step, options, grad_scale=grad_scale)
    want = plain_step(before, step, options, grad_scale)
    names = ("param", "exp_avg", "exp_avg_sq", "max_exp_avg_sq")
    got = [tensors[0], *tensors[2:]]
    for tensor, bounded, name in zip(got, want, names[: len(got)], strict=True):
        assert_bounded(tensor, bounded, name)
    assert torch.equal(tensors[1], before[1])


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    as_int = torch.int32 if a.dtype == F32 else torch.int16
    return torch.equal(a.contiguous().view(as_int), b.contiguous().view(as_int))


@pytest.mark.parametrize("types", TYPES, ids=str)
def test_every_type_equals_float64(types):
    check(make(1003, types), 3, Options(lr=1e-2, weight_decay=0.1))


@pytest.mark.parametrize("adam_w_mode", [True, False])
@pytest.mark.parametrize("bias_correction", [True, False])
@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1, -0.01])
@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_every_mode_equals_float64(adam_w_mode, bias_correction, maximize, weight_decay, step):
    options = Options(
        lr=1e-2,
        weight_decay=weight_decay,
        adam_w_mode=adam_w_mode,
        bias_correction=bias_correction,
        maximize=maximize,
    )
    check(make(300, seed=step), step, options)


@pytest.mark.parametrize("grad_scale", [1.0, 1024.0, 3.0, 0.1])
def test_gradients_are_divided_by_their_scale(grad_scale):
    check(make(500, (BF16, F16, F32)), 2, Options(lr=1e-2), grad_scale)


def test_amsgrad_keeps_the_largest_mean():
    tensors = [*make(1000), torch.rand(1000) * 0.01]
    before = tensors[4].clone()
    check(tensors, 2, Options(lr=1e-2))
    assert torch.equal(tensors[4], torch.maximum(before, tensors[3]))
    assert not torch.equal(tensors[4], before)


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_the_copy_is_the_param_rounded_once(dtype):
    tensors = make(1001)
    copy = torch.empty(1001, dtype=dtype)
    run(tensors, 1, Options(lr=1e-2), copies=[copy])
    assert same_bits(copy, tensors[0].to(dtype))


def test_a_list_is_stepped_as_its_tensors_are():
    sizes = [0, 1, 7, 64, 1000, 70_000, 3]
    steps = [1, 2, 3, 4, 5, 6, 7]
    rows = [make(n, TYPES[i % len(TYPES)], seed=i) for i, n in enumerate(sizes)]
    alone = [copies_of(row) for row in rows]
    options = Options(lr=1e-2, weight_decay=0.1)
    cpu_adam_(*zip(*rows, strict=True), steps, **vars(options))
    for row, step in zip(alone, steps, strict=True):
        run(row, step, options)
    for row, want in zip(rows, alone, strict=True):
        assert all(map(same_bits, row, want))


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("count", [2, 3, 7])
def test_any_number_of_threads_gives_the_same_bits(threads, count):
    rows = [make(n, seed=n) for n in (100_001, 5, 40_000, 0, 33_333)]
    expected = [copies_of(row) for row in rows]
    threads(1)
    cpu_adam_(*zip(*expected, strict=True), 2, lr=1e-2)
    threads(count)
    cpu_adam_(*zip(*rows, strict=True), 2, lr=1e-2)
    for row, want in zip(rows, expected, strict=True):
        assert all(map(same_bits, row, want))


def channels_last(t):
    return t.contiguous(memory_format=torch.channels_last)


def with_strides(t, strides):
    return torch.empty_strided(t.shape, strides, dtype=t.dtype).copy_(t)


def gaps(t):
    wide = torch.full((*t.shape[:-1], 2 * t.shape[-1]), 7.0, dtype=t.dtype)
    wide[..., ::2] = t
    return wide[..., ::2]


LAYOUTS = {
    # pytorch#118115
    "all transposed": ((2, 3), [lambda t: t.t().contiguous().t()] * 4),
    # pytorch#106951, #110758
    "grad with odd strides": (
        (2, 1, 100),
        [None, lambda t: with_strides(t, (100, 1, 1)), None, None],
    ),
    # pytorch#126585
    "grad channels_last": ((4, 3, 5, 7), [None, channels_last, None, None]),
    "param channels_last": ((4, 3, 5, 7), [channels_last, None, None, None]),
    "states transposed": ((30, 40), [None, None, *[lambda t: t.t().contiguous().t()] * 2]),
    "gaps everywhere": ((13, 21), [gaps] * 4),
    "grad expanded": ((6, 9), [None, lambda t: t[:1].expand(6, 9), None, None]),
}


@pytest.mark.parametrize("types", [(F32, F32, F32), (BF16, F16, F32), (F16, F16, F16)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_elements_pair_up_logically(layout, types):
    shape, layouts = LAYOUTS[layout]
    dense = make(shape, types)
    tensors = [t if f is None else f(t) for t, f in zip(dense, layouts, strict=True)]
    dense = [t.clone(memory_format=torch.contiguous_format) for t in tensors]
    strides = [t.stride() for t in tensors]
    options = Options(lr=1e-2, weight_decay=0.1)
    run(tensors, 1, options)
    run(dense, 1, options)
    assert [t.stride() for t in tensors] == strides
    assert all(map(same_bits, tensors, dense))


def test_what_lies_between_elements_is_not_touched():
    tensors = [gaps(t) for t in make((5, 6))]
    run(tensors, 1, Options())
    for tensor in tensors:
        whole = tensor.as_strided((5, 12), (12, 1), 0)
        assert (whole[:, 1::2] == 7).all()


@pytest.mark.parametrize("sizes", [[], [0], [0, 3]])
def test_nothing_to_do_is_no_error(sizes):
    rows = [make(n) for n in sizes]
    before = [copies_of(row) for row in rows]
    lists = [list(x) for x in zip(*rows, strict=True)] or [[], [], [], []]
    cpu_adam_(*lists, 1, lr=0.1)
    for row, was in zip(rows, before, strict=True):
        assert torch.equal(row[0], was[0]) == (row[0].numel() == 0)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("size", [1, 5, 6, 7, 33, 1003])
def test_an_element_that_is_not_finite_spoils_itself_only(bad, size):
    tensors, want = make(size), make(size)
    tensors[1][-1] = bad
    run(tensors, 1, Options())
    run(want, 1, Options())
    assert tensors[0][-1].isnan()
    for got, other in zip(tensors, want, strict=True):
        assert same_bits(got[:-1], other[:-1])


def test_an_infinite_param_without_weight_decay_keeps_its_states_finite():
    tensors = make(4)
    tensors[0][0] = float("inf")
    run(tensors, 1, Options(adam_w_mode=False))
    assert tensors[0][0] == float("inf")
    assert tensors[2].isfinite().all()


REFUSED = {
    "lengths": (lambda r: r["grads"].pop(), r"grads has 1 entries, params has 2"),
    "float64 param": (lambda r: change(r, "params", lambda t: t.double()), r"params\[1\] is "),
    "int param": (lambda r: change(r, "params", lambda t: t.int()), r"params\[1\] is "),
    "complex param": (lambda r: change(r, "params", lambda t: t.cfloat()), r"params\[1\] is "),
    "sparse grad": (lambda r: change(r, "grads", lambda t: t.to_sparse()), r"grads\[1\] is sparse"),
    "meta grad": (lambda r: change(r, "grads", lambda t: t.to("meta")), r"grads\[1\] is on meta"),
    "shape": (lambda r: change(r, "grads", lambda t: t[:3]), r"grads\[1\] has shape \(3,\)"),
    "state type": (lambda r: change(r, "exp_avgs", lambda t: t.half()), r"exp_avgs\[1\] is "),
    "states differ": (
        lambda r: (
            change(r, "params", lambda t: t.bfloat16()),
            change(r, "exp_avg_sqs", lambda t: t.bfloat16()),
        ),
        r"exp_avg_sqs\[1\] is .*; the states of a param must have one dtype",
    ),
    "same memory": (
        lambda r: r["exp_avgs"].__setitem__(1, r["params"][1]),
        r"(params|exp_avgs)\[1\] and (params|exp_avgs)\[1\] share memory",
    ),
    "expanded param": (
        lambda r: change(r, "params", lambda t: t[:1].expand(4)),
        r"params\[1\] is written, but dimension 0 .* stride 0",
    ),
    "step 0": (lambda r: r.update(steps=[1, 0]), r"step is 0; it counts from 1"),
    "steps": (lambda r: r.update(steps=[1, 2, 3]), r"steps has 3 entries"),
    "lr": (lambda r: r.update(lr=-1.0), r"lr is -1; it must be finite and >= 0"),
    "beta": (lambda r: r.update(beta2=1.0), r"beta2 is 1; it must be in \[0, 1\)"),
    "eps": (lambda r: r.update(eps=1e-40), r"eps is 1e-40"),
    "grad_scale": (lambda r: r.update(grad_scale=0.0), r"grad_scale is 0; it must be finite"),
    "largest": (lambda r: r.update(max_exp_avg_sqs=[torch.ones(4)]), r"max_exp_avg_sqs has 1"),
    "copy type": (
        lambda r: r.update(copies=[torch.ones(4), torch.ones(4)]),
        r"copies\[0\] is .*; a copy is torch.float16 or torch.bfloat16",
    ),
    "copy of a 16-bit param": (
        lambda r: (
            change(r, "params", lambda t: t.bfloat16()),
            r.update(copies=[torch.ones(4).bfloat16() for _ in range(2)]),
        ),
        r"copies\[1\] is .* of a torch.float32 param",
    ),
}


def change(row: dict, name: str, function) -> None:
    row[name][1] = function(row[name][1])


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_named_before_anything_is_written(case):
    spoil, message = REFUSED[case]
    names = ("params", "grads", "exp_avgs", "exp_avg_sqs")
    row = {name: [torch.full((4,), 0.5) for _ in range(2)] for name in names}
    row.update(steps=1, lr=0.1)
    spoil(row)
    first = [row[name][0] for name in names]
    with pytest.raises(RuntimeError, match=message):
        cpu_adam_(**row)
    assert all(torch.equal(t, torch.full((4,), 0.5)) for t in first)


def test_the_schema_says_what_is_written():
    lists = [[t] for t in make(40)]
    arguments = (*lists, [torch.rand(40)], [torch.empty(40, dtype=BF16)], [0], [2])
    options = [1e-2, 0.9, 0.999, 1e-8, 0.1, 1.0, 1.0, 0.0, float("inf")]
    torch.library.opcheck(torch.ops.mps_ds.cpu_adam_.default, (*arguments, options, 1.0))
    rollback = (*make(40), 2, options)
    torch.library.opcheck(torch.ops.mps_ds.cpu_adam_rollback_.default, rollback)


def test_a_backward_that_saved_the_param_raises():
    param = torch.nn.Parameter(torch.ones(4))
    loss = (param * param).sum()
    cpu_adam_([param], [torch.ones(4)], [torch.zeros(4)], [torch.zeros(4)], 1, lr=0.1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_the_backend_in_use_comes_first():
    names = backends()
    assert names[-1] == "scalar" or names[0] == "scalar"
    assert set(names) <= {"avx512", "avx2", "neon", "scalar"}
