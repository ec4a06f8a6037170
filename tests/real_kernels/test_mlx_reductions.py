"""MLX's reductions and scans.

Sums may be taken in any order, so n terms are exact within n roundings of the sum of their
magnitudes; minima, maxima, integers and logic are exact.
"""

import math

import pytest
import torch
from real_kernels import mlx
from real_kernels.accuracy import assert_summed, assert_within, unit
from real_kernels.kernels import DTYPES, FLOATS, instances, unwritten

# Type of the elements and of the accumulator, as MLX pairs them.
SUMS = {"float": "float", "half": "float", "bfloat": "float", "int": "int", "long": "long"}
HEADERS = ("atomic.h", "reduction/ops.h", "reduce.h")
# Name of the reduction: (MLX's functor, PyTorch's function).
ORDERINGS = {"min": ("Min", torch.amin), "max": ("Max", torch.amax)}


def reduce_table():
    """(name, instance) of the kernels of reduce.h."""
    for t, u in SUMS.items():
        yield f"all_sum_{t}", f"all_reduce<{t}, {u}, Sum<{u}>>"
        yield f"row_sum_{t}", f"row_reduce_simple<{t}, {u}, Sum<{u}>>"
    for t in (*FLOATS, "int", "uchar"):
        for name, (functor, _) in ORDERINGS.items():
            yield f"all_{name}_{t}", f"all_reduce<{t}, {t}, {functor}<{t}>>"
            yield f"row_{name}_{t}", f"row_reduce_simple<{t}, {t}, {functor}<{t}>>"
    yield "all_prod_float", "all_reduce<float, float, Prod<float>>"
    yield "all_prod_int", "all_reduce<int, int, Prod<int>>"
    yield "all_and_bool", "all_reduce<bool, bool, And<bool>>"
    yield "all_or_bool", "all_reduce<bool, bool, Or<bool>>"
    for t in ("float", "int"):
        yield f"small_sum_{t}", f"row_reduce_small<{t}, {t}, Sum<{t}>, int, 1>"
        yield f"looped_sum_{t}", f"row_reduce_looped<{t}, {t}, Sum<{t}>, int, 1>"
        yield f"col_small_{t}", f"col_reduce_small<{t}, {t}, Sum<{t}>, int, 1>"
        yield f"col_long_{t}", f"col_reduce_longcolumn<{t}, {t}, Sum<{t}>, int, 1>"
        yield f"col_looped_{t}", f"col_reduce_looped<{t}, {t}, Sum<{t}>, int, 1, 32, 32>"
        yield f"col_2pass_{t}", f"col_reduce_2pass<{t}, {t}, Sum<{t}>, int, 1, 32, 32>"
    yield "init_min_float", "init_reduce<float, Min<float>>"


@pytest.fixture(scope="module")
def kernels(compiled):
    return compiled("reduce", mlx.includes(*HEADERS) + instances(reduce_table()))


def sample(shape, t: str) -> torch.Tensor:
    if t in FLOATS:
        return torch.randn(shape).to(DTYPES[t])
    limits = torch.iinfo(DTYPES[t])
    return torch.randint(max(limits.min, -(2**40)), min(limits.max, 2**40), shape).to(DTYPES[t])


def check_sums(out: torch.Tensor, x: torch.Tensor, dim: int, what: str) -> None:
    if not x.is_floating_point():
        assert torch.equal(out, x.sum(dim).to(x.dtype)), what
        return
    exact, magnitudes = x.double().sum(dim), x.double().abs().sum(dim)
    assert_summed(out, exact, magnitudes, x.shape[dim], out.dtype, what)


@pytest.mark.parametrize("t", SUMS)
def test_sum_of_all(kernels, t):
    """By 3 threadgroups of 96 threads, each over its part of the array."""
    x, out = sample((4000,), t), unwritten(3, DTYPES[SUMS[t]])
    arguments = [x, out, mlx.long(4000), mlx.long(1500)]
    kernels(f"all_sum_{t}", arguments, (1, 3), (96, 1), groups=True)
    for part, total in zip(x.split(1500), out.split(1), strict=True):
        check_sums(total, part[:, None], 0, f"sum of all, {t}")


@pytest.mark.parametrize("t", SUMS)
def test_sum_of_rows(kernels, t):
    x, out = sample((10, 700), t), unwritten(10, DTYPES[SUMS[t]])
    arguments = [x, out, mlx.long(700), mlx.long(10)]
    kernels(f"row_sum_{t}", arguments, (1, 3), (64, 1), groups=True)
    check_sums(out, x, 1, f"sum of rows, {t}")


EXTREMES = [(t, False) for t in (*FLOATS, "int", "uchar")] + [(t, True) for t in FLOATS]


@pytest.mark.parametrize(("t", "nan"), EXTREMES)
@pytest.mark.parametrize("name", ORDERINGS)
def test_minimum_and_maximum(kernels, name, t, nan):
    x = sample((8, 700), t)
    if nan:
        x[3, 77] = math.nan
    function = ORDERINGS[name][1]
    rows, total = unwritten(8, x.dtype), unwritten(1, x.dtype)
    arguments = [x, rows, mlx.long(700), mlx.long(8)]
    kernels(f"row_{name}_{t}", arguments, (1, 2), (64, 1), groups=True)
    arguments = [x, total, mlx.long(5600), mlx.long(5600)]
    kernels(f"all_{name}_{t}", arguments, 1, 256, groups=True)
    torch.testing.assert_close(rows, function(x, 1), rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(total[0], function(x), rtol=0, atol=0, equal_nan=True)


def test_products(kernels):
    x, out = torch.rand(500) + 0.5, unwritten(1, torch.float32)
    kernels("all_prod_float", [x, out, mlx.long(500), mlx.long(500)], 1, 64, groups=True)
    exact = x.double().prod()[None]
    assert_within(out, exact, 500 * unit(torch.float32) * exact, "product")
    n = torch.randint(-9, 9, (500,)).int() | 1
    out = unwritten(1, torch.int32)
    kernels("all_prod_int", [n, out, mlx.long(500), mlx.long(500)], 1, 64, groups=True)
    assert torch.equal(out, n.long().prod().int()[None])


@pytest.mark.parametrize("value", [False, True])
def test_logic(kernels, value):
    """One that differs from all others decides."""
    x = torch.full((900,), value)
    name = "all_and_bool" if value else "all_or_bool"
    for expected, change in ((value, None), (not value, 613)):
        if change is not None:
            x[change] = not value
        out = torch.full((1,), not expected)
        kernels(name, [x, out, mlx.long(900), mlx.long(900)], 1, 128, groups=True)
        assert out.item() == expected


def shape_arguments(reduced, strides):
    """Of no other dimension, and of the dimensions that are reduced."""
    return [mlx.ints(1), mlx.longs(0), mlx.int32(0), mlx.ints(*reduced), mlx.longs(*strides)]


@pytest.mark.parametrize("t", ["float", "int"])
@pytest.mark.parametrize("rows", [6, 40], ids=["by thread", "by simdgroup"])
def test_small_rows(kernels, rows, t):
    """[5, rows, 7]: the last two dimensions are reduced."""
    x, out = sample((5, rows, 7), t), unwritten(5, DTYPES[t])
    outer = [mlx.ints(5), mlx.longs(rows * 7), mlx.int32(1)]
    inner = [mlx.ints(rows), mlx.longs(7), mlx.int32(1)]
    arguments = [x, out, mlx.long(7), mlx.long(rows), *outer, *inner]
    if rows <= 8:
        kernels(f"small_sum_{t}", arguments, (5, 1, 1), (5, 1, 1))
    else:
        kernels(f"small_sum_{t}", arguments, (1, 5, 1), (32, 1, 1), groups=True)
    check_sums(out, x.reshape(5, -1), 1, f"sum of small rows, {t}")


@pytest.mark.parametrize("t", ["float", "int"])
def test_rows_in_a_loop(kernels, t):
    """[4, 3, 500]: the last two dimensions are reduced."""
    x, out = sample((4, 3, 500), t), unwritten(4, DTYPES[t])
    outer = [mlx.ints(4), mlx.longs(1500), mlx.int32(1)]
    inner = [mlx.ints(3), mlx.longs(500), mlx.int32(1)]
    arguments = [x, out, mlx.long(500), mlx.long(3), *outer, *inner]
    kernels(f"looped_sum_{t}", arguments, (1, 4), (64, 1), groups=True)
    check_sums(out, x.reshape(4, -1), 1, f"sum of looped rows, {t}")


@pytest.mark.parametrize("t", ["float", "int"])
@pytest.mark.parametrize("how", ["small", "long", "looped", "2pass"])
def test_columns(kernels, how, t):
    """The first dimension of [rows, columns] is reduced."""
    rows, columns = {"small": (20, 90), "long": (700, 6)}.get(how, (300, 90))
    x = sample((rows, columns), t)
    passes = {"long": 2, "2pass": 32}.get(how, 1)
    out = unwritten((passes, columns), x.dtype)
    inner = [mlx.ints(rows), mlx.longs(columns), mlx.int32(1)]
    outer = [mlx.ints(1), mlx.longs(0), mlx.int32(0)]
    arguments = [x, out, mlx.long(rows), mlx.long(columns), *outer, *inner, mlx.long(1)]
    if how == "small":
        kernels(f"col_small_{t}", arguments, (1, 1, 1), (23, 4, 1), groups=True)
    elif how == "long":
        arguments.append(mlx.long(columns))
        kernels(f"col_long_{t}", arguments, (1, 1, 2), (columns, 32, 1), groups=True)
    elif how == "looped":
        arguments.append(mlx.long(0))
        kernels(f"col_looped_{t}", arguments, (3, 1, 1), (256, 1, 1), groups=True)
    else:
        arguments += [mlx.long(0), mlx.long(1)]
        kernels(f"col_2pass_{t}", arguments, (3, 32, 1), (256, 1, 1), groups=True)
    if passes > 1 and t == "float":
        # The passes' own results are float; adding them here is exact enough in double.
        exact, magnitudes = x.double().sum(0), x.double().abs().sum(0)
        error = rows * unit(torch.float32) * magnitudes
        assert_within(out.double().sum(0), exact, error, f"sum of columns, {how}")
    else:
        check_sums(out.sum(0).to(x.dtype), x, 0, f"sum of columns, {how} {t}")


def test_initial_value(kernels):
    out = unwritten(6, torch.float32)
    kernels("init_min_float", [out], (3, 2), (3, 1))
    assert out.tolist() == [math.inf] * 6


# ---- scans ----

SCANS = {
    "sum": ("CumSum", torch.cumsum, ("float", "half", "bfloat", "int", "long")),
    "prod": ("CumProd", torch.cumprod, ("float", "int")),
    "max": ("CumMax", lambda x, dim: torch.cummax(x, dim)[0], ("float", "bfloat", "int")),
    "min": ("CumMin", lambda x, dim: torch.cummin(x, dim)[0], ("float", "half", "int")),
}
DIRECTIONS = {"forward": "true, false", "exclusive": "false, false", "reverse": "true, true"}
# All directions for two types, one for the others.
SCAN_CASES = [
    (name, t, how)
    for name, (_, _, types) in SCANS.items()
    for t in types
    for how in DIRECTIONS
    if how == "forward" or t in ("float", "int")
]


@pytest.fixture(scope="module")
def scans(compiled):
    table = [
        (
            f"{name}_{t}_{how}",
            f"contiguous_scan<{t}, {t}, {SCANS[name][0]}<{t}>, 4, {DIRECTIONS[how]}>",
        )
        for name, t, how in SCAN_CASES
    ]
    table += [
        (f"strided_{t}", f"strided_scan<{t}, {t}, CumSum<{t}>, 4, true, false>")
        for t in ("float", "int")
    ]
    return compiled("scan", mlx.includes("scan.h") + instances(table), "4.0")


def scanned(x: torch.Tensor, name: str, how: str) -> torch.Tensor:
    """What PyTorch computes."""
    function = SCANS[name][1]
    if how == "reverse":
        return function(x.flip(1), 1).flip(1)
    if how == "exclusive":
        first = {"sum": 0, "prod": 1, "max": -math.inf, "min": math.inf}[name]
        if not x.is_floating_point() and name in ("max", "min"):
            limits = torch.iinfo(x.dtype)
            first = limits.min if name == "max" else limits.max
        initial = torch.full((len(x), 1), first, dtype=x.dtype)
        return function(torch.cat([initial, x[:, :-1]], 1), 1)
    return function(x, 1)


@pytest.mark.parametrize(("name", "t", "how"), SCAN_CASES)
def test_scan(scans, name, t, how):
    x = sample((3, 1000), t) if t in FLOATS else torch.randint(-5, 6, (3, 1000), dtype=DTYPES[t])
    if name == "prod":
        x = (torch.rand(3, 1000) * 0.1 + 0.95) if t == "float" else x | 1
    out = unwritten((3, 1000), x.dtype)
    scans(f"{name}_{t}_{how}", [x, out, mlx.long(1000)], (1, 3), (96, 1), groups=True)
    if t not in FLOATS or name in ("max", "min"):
        assert torch.equal(out, scanned(x, name, how).to(x.dtype))
        return
    exact = scanned(x.double(), name, how)
    if name == "prod":
        error = 1000 * unit(x.dtype) * exact
    else:
        error = 1000 * unit(x.dtype) * scanned(x.double().abs(), name, how)
    assert_within(out, exact, error, f"{name} of {t}, {how}")


@pytest.mark.parametrize("t", ["float", "int"])
def test_strided_scan(scans, t):
    """Along the first dimension of [100, 64]."""
    x = sample((100, 64), t) if t == "float" else torch.randint(-5, 6, (100, 64)).int()
    out = unwritten((100, 64), x.dtype)
    arguments = [x, out, mlx.long(100), mlx.long(64), mlx.long(2)]
    scans(f"strided_{t}", arguments, (1, 2, 1), (256, 1, 1), groups=True)
    if t == "int":
        assert torch.equal(out, x.cumsum(0).int())
    else:
        error = 100 * unit(torch.float32) * x.double().abs().cumsum(0)
        assert_within(out, x.double().cumsum(0), error, "strided sum")
