"""MLX's binary and ternary kernels: float results are rounded once, integers are exact."""

import math

import pytest
import torch
from real_kernels import mlx
from real_kernels.accuracy import assert_rounded, assert_within, ulp, unit
from real_kernels.kernels import DTYPES, FLOATS, instances, unwritten

SIZE = 1001

# PyTorch computes these in the same type with the same roundings.
SAME = {
    "Add": torch.add,
    "Subtract": torch.sub,
    "Multiply": torch.mul,
    "Divide": torch.div,
    "Maximum": torch.maximum,
    "Minimum": torch.minimum,
    "Remainder": torch.remainder,
}
INTEGERS = {
    "Add": torch.add,
    "Subtract": torch.sub,
    "Multiply": torch.mul,
    "Maximum": torch.maximum,
    "Minimum": torch.minimum,
    "FloorDivide": torch.floor_divide,
    "Remainder": torch.remainder,
    "BitwiseAnd": torch.bitwise_and,
    "BitwiseOr": torch.bitwise_or,
    "BitwiseXor": torch.bitwise_xor,
}
SHIFTS = {"LeftShift": torch.bitwise_left_shift, "RightShift": torch.bitwise_right_shift}
INTEGER_TYPES = ("char", "short", "int", "long", "uchar")
COMPARISONS = {
    "Equal": torch.eq,
    "NotEqual": torch.ne,
    "Less": torch.lt,
    "LessEqual": torch.le,
    "Greater": torch.gt,
    "GreaterEqual": torch.ge,
}
LAYOUTS = ("ss", "sv", "vs", "vv", "sv2", "vs2", "vv2", "g_nd1", "g_nd2", "g_nd3", "g")


def table():
    """(name, instance) of every kernel of this file that binary.h has."""
    for op in (*SAME, "Power", "ArcTan2", "LogAddExp"):
        for t in FLOATS:
            yield f"{op}_{t}", f"binary_vv<{t}, {t}, {op}>"
    for op in (*INTEGERS, *SHIFTS):
        for t in INTEGER_TYPES:
            yield f"{op}_{t}", f"binary_vv<{t}, {t}, {op}>"
    yield "Power_int", "binary_vv<int, int, Power>"
    for op in COMPARISONS:
        for t in (*FLOATS, "int"):
            yield f"{op}_{t}", f"binary_vv<{t}, bool, {op}>"
    for op in ("LogicalAnd", "LogicalOr"):
        yield f"{op}_bool", f"binary_vv<bool, bool, {op}>"
    for layout in LAYOUTS:
        yield f"{layout}_Subtract", f"binary_{layout}<float, float, Subtract>"


@pytest.fixture(scope="module")
def kernels(compiled):
    headers = mlx.includes("binary_ops.h", "binary.h")
    return compiled("binary", headers + instances(table()))


def apply(kernels, name: str, a, b, dtype=None) -> torch.Tensor:
    out = unwritten(len(a), dtype or a.dtype)
    threads = math.ceil(len(a) / (8 // a.element_size()))
    kernels(name, [a, b, out, mlx.uint(len(a))], threads, 64)
    return out


def floats(dtype: torch.dtype, scale: float = 3) -> torch.Tensor:
    return (torch.randn(SIZE) * scale).to(dtype)


@pytest.mark.parametrize("t", FLOATS)
@pytest.mark.parametrize("op", SAME)
def test_equals_pytorch(kernels, op, t):
    a, b = floats(DTYPES[t]), floats(DTYPES[t])
    expected = SAME[op](a, b)
    assert torch.equal(apply(kernels, f"{op}_{t}", a, b), expected)


@pytest.mark.parametrize("t", FLOATS)
def test_maximum_keeps_nan(kernels, t):
    a, b = floats(DTYPES[t]), floats(DTYPES[t])
    a[3] = math.nan
    assert apply(kernels, f"Maximum_{t}", a, b).isnan().nonzero().flatten().tolist() == [3]
    assert apply(kernels, f"Minimum_{t}", a, b).isnan().nonzero().flatten().tolist() == [3]


@pytest.mark.parametrize("t", FLOATS)
def test_power_is_rounded_once(kernels, t):
    a, b = floats(DTYPES[t]).abs() + 0.1, floats(DTYPES[t], 1)
    exact = torch.pow(a.double(), b.double())
    assert_rounded(apply(kernels, f"Power_{t}", a, b), exact, f"pow of {t}")


@pytest.mark.parametrize("t", FLOATS)
def test_atan2_is_rounded_once(kernels, t):
    a, b = floats(DTYPES[t]), floats(DTYPES[t])
    exact = torch.atan2(a.double(), b.double())
    assert_rounded(apply(kernels, f"ArcTan2_{t}", a, b), exact, f"atan2 of {t}")


@pytest.mark.parametrize("t", FLOATS)
def test_logaddexp(kernels, t):
    """max + log1p(exp(d)), d = min - max: the rounding of d, scaled by |d| exp(d) < 0.37, exp's
    one and log1p's five, of a value below ln 2; then the sum is rounded.
    """
    a, b = floats(DTYPES[t]), floats(DTYPES[t])
    exact = torch.logaddexp(a.double(), b.double())
    error = 6.5 * unit(a.dtype) + 0.51 * ulp(exact, a.dtype)
    assert_within(apply(kernels, f"LogAddExp_{t}", a, b), exact, error, f"logaddexp of {t}")


def whole_range(t: str) -> torch.Tensor:
    limits = torch.iinfo(DTYPES[t])
    return torch.randint(limits.min, limits.max, (SIZE,), dtype=DTYPES[t])


@pytest.mark.parametrize("t", INTEGER_TYPES)
@pytest.mark.parametrize("op", INTEGERS)
def test_integers_are_exact(kernels, op, t):
    a, b = whole_range(t), whole_range(t)
    if op in ("FloorDivide", "Remainder"):
        b[b == 0] = 3
    assert torch.equal(apply(kernels, f"{op}_{t}", a, b), INTEGERS[op](a, b))


@pytest.mark.parametrize("t", INTEGER_TYPES)
@pytest.mark.parametrize("op", SHIFTS)
def test_shifts(kernels, op, t):
    a = whole_range(t)
    b = torch.randint(0, 8 * a.element_size(), (SIZE,)).to(a.dtype)
    assert torch.equal(apply(kernels, f"{op}_{t}", a, b), SHIFTS[op](a, b))


def test_integer_power_wraps(kernels):
    a, b = torch.randint(-9, 9, (SIZE,)).int(), torch.randint(0, 12, (SIZE,)).int()
    expected = torch.pow(a.long(), b.long()).int()
    assert torch.equal(apply(kernels, "Power_int", a, b), expected)


@pytest.mark.parametrize("t", [*FLOATS, "int"])
@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons(kernels, op, t):
    a, b = (torch.randint(-3, 4, (SIZE,)).to(DTYPES[t]) for _ in range(2))
    if t != "int":
        a[5] = b[6] = math.nan
    assert torch.equal(apply(kernels, f"{op}_{t}", a, b, torch.bool), COMPARISONS[op](a, b))


@pytest.mark.parametrize("op", ["LogicalAnd", "LogicalOr"])
def test_logic(kernels, op):
    a, b = torch.arange(SIZE) % 2 == 0, torch.arange(SIZE) % 3 == 0
    expected = a & b if op == "LogicalAnd" else a | b
    assert torch.equal(apply(kernels, f"{op}_bool", a, b), expected)


@pytest.mark.parametrize("layout", ["ss", "sv", "vs", "vv"])
def test_scalars_are_repeated(kernels, layout):
    """s: one value for all elements, v: one for each."""
    a, b = (floats(torch.float32)[: SIZE if which == "v" else 1].clone() for which in layout)
    out = unwritten(SIZE, torch.float32)
    size, threads = [mlx.uint(SIZE)], math.ceil(SIZE / 2)
    if layout == "ss":
        size, threads = [], SIZE
    kernels(f"{layout}_Subtract", [a, b, out, *size], threads, 64)
    assert torch.equal(out, (a - b).expand(SIZE))


@pytest.mark.parametrize("layout", ["sv2", "vs2", "vv2"])
def test_two_dimensional_grids(kernels, layout):
    a, b = (floats(torch.float32)[: 1000 if which == "v" else 1].clone() for which in layout[:2])
    out = unwritten(1000, torch.float32)
    kernels(f"{layout}_Subtract", [a, b, out, mlx.long(1000)], (50, 10), (32, 2))
    assert torch.equal(out, (a - b).expand(1000))


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_strides_of_fixed_rank(kernels, ndim):
    """`a` is read transposed, `b` is one row for all."""
    shape = (7, 5, 9)[-ndim:]
    memory = torch.randn(tuple(reversed(shape)))
    a = memory.permute(*reversed(range(ndim)))
    b = torch.randn(shape[-1])
    out = unwritten(shape, torch.float32)
    b_strides = [0] * (ndim - 1) + [1]
    strides = [mlx.longs(*a.stride()), mlx.longs(*b_strides)]
    kernels(f"g_nd{ndim}_Subtract", [memory, b, out, *strides], tuple(reversed(shape)), 3)
    assert torch.equal(out, a - b)


def test_strides_of_any_rank(kernels):
    shape = (3, 4, 5, 6)
    memory = torch.randn(6, 5, 4, 3)
    a, b = memory.permute(3, 2, 1, 0), torch.randn(5, 1)
    out = unwritten(shape, torch.float32)
    arguments = [memory, b, out, mlx.ints(*shape), mlx.longs(*a.stride()), mlx.longs(0, 0, 1, 0)]
    kernels("g_Subtract", [*arguments, mlx.int32(4)], (6, 5, 12), (3, 1, 1))
    assert torch.equal(out, a - b)
