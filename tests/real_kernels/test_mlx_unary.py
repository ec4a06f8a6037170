"""MLX's unary kernels: each result is the function's exact value, rounded to its type."""

import math

import pytest
import torch
from real_kernels import mlx
from real_kernels.accuracy import assert_rounded, assert_within, ulp, unit
from real_kernels.kernels import DTYPES, FLOATS, instances, same_bits, unwritten

SIZE = 1001  # odd: the last thread has less to do

# Name of MLX's functor: (exact function, lowest and highest argument).
ROUNDED = {
    "Square": (torch.square, -9, 9),
    "Sqrt": (torch.sqrt, 0, 9),
    "Rsqrt": (torch.rsqrt, 0.01, 9),
    "Exp": (torch.exp, -9, 9),
    "Log": (torch.log, 0.01, 9),
    "Log2": (torch.log2, 0.01, 9),
    "Log10": (torch.log10, 0.01, 9),
    "Sin": (torch.sin, -9, 9),
    "Cos": (torch.cos, -9, 9),
    "Tan": (torch.tan, -1.5, 1.5),
    "Sinh": (torch.sinh, -9, 9),
    "Cosh": (torch.cosh, -9, 9),
    "Tanh": (torch.tanh, -9, 9),
    "ArcSin": (torch.asin, -1, 1),
    "ArcCos": (torch.acos, -1, 1),
    "ArcTan": (torch.atan, -9, 9),
    "ArcSinh": (torch.asinh, -9, 9),
    "ArcCosh": (torch.acosh, 1, 9),
    "ArcTanh": (torch.atanh, -1, 1),
}
EXACT = {
    "Abs": torch.abs,
    "Negative": torch.neg,
    "Floor": torch.floor,
    "Ceil": torch.ceil,
    "Round": torch.round,  # halves to even, as rint()
    "Sign": torch.sign,
}
# With formulas of MLX's own.
APPROXIMATED = ("Erf", "ErfInv", "Expm1", "Log1p", "Sigmoid")
INTEGERS = {
    "Abs": torch.abs,
    "Negative": torch.neg,
    "Sign": torch.sign,
    "Square": torch.square,
    "BitwiseInvert": torch.bitwise_not,
}
INTEGER_TYPES = ("char", "short", "int", "long")


def table():
    """(name, instance) of every kernel of this file."""
    for op in (*ROUNDED, *EXACT, *APPROXIMATED):
        for t in FLOATS:
            yield f"{op}_{t}", f"unary_v<{t}, {t}, {op}>"
    for op in INTEGERS:
        for t in INTEGER_TYPES:
            yield f"{op}_{t}", f"unary_v<{t}, {t}, {op}>"
    yield "LogicalNot_bool", "unary_v<bool, bool, LogicalNot>"
    yield "v2_Exp_float", "unary_v2<float, float, Exp>"
    yield "g_Exp_float", "unary_g<float, float, Exp, 2>"


@pytest.fixture(scope="module")
def kernels(compiled):
    return compiled("unary", mlx.includes("unary_ops.h", "unary.h") + instances(table()))


def apply(kernels, name: str, x: torch.Tensor) -> torch.Tensor:
    out = unwritten(len(x), x.dtype)
    per_thread = 8 // x.element_size()
    threads = math.ceil(len(x) / per_thread)
    kernels(name, [x, out, mlx.uint(len(x))], threads, 64)
    return out


def sample(lowest: float, highest: float, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(SIZE).uniform_(lowest, highest).to(dtype)


@pytest.mark.parametrize("t", FLOATS)
@pytest.mark.parametrize("op", ROUNDED)
def test_is_the_exact_value_rounded_once(kernels, op, t):
    function, lowest, highest = ROUNDED[op]
    x = sample(lowest, highest, DTYPES[t])
    assert_rounded(apply(kernels, f"{op}_{t}", x), function(x.double()), f"{op} of {t}")


@pytest.mark.parametrize("t", FLOATS)
@pytest.mark.parametrize("op", EXACT)
def test_is_exact(kernels, op, t):
    x = sample(-9, 9, DTYPES[t])
    x[:4] = torch.tensor([0.5, 1.5, -0.5, math.inf]).to(x.dtype)
    assert torch.equal(apply(kernels, f"{op}_{t}", x), EXACT[op](x))


@pytest.mark.parametrize("t", INTEGER_TYPES)
@pytest.mark.parametrize("op", INTEGERS)
def test_integers_wrap(kernels, op, t):
    limits = torch.iinfo(DTYPES[t])
    x = torch.randint(limits.min, limits.max, (SIZE,), dtype=DTYPES[t])
    x[:3] = torch.tensor([0, limits.min, limits.max], dtype=x.dtype)
    assert torch.equal(apply(kernels, f"{op}_{t}", x), INTEGERS[op](x))


def test_logical_not(kernels):
    x = torch.arange(SIZE) % 3 == 0
    assert torch.equal(apply(kernels, "LogicalNot_bool", x), ~x)


def expm1_error(x: torch.Tensor) -> torch.Tensor:
    """Of MLX's expm1f: 0.9975 ulp as its source says, if ln 2 had all its bits there.

    It reduces x by j times a ln 2 of 19 bits, which is 1.43e-6 too small, and has no second part
    of it: exp() is off by that much times j.
    """
    j = (x / math.log(2)).round()
    short = math.log(2) - 6.93145752e-1
    exact = torch.expm1(x)
    return 1.0 * ulp(exact, torch.float32) + j.abs() * short * 1.01 * torch.exp(x)


@pytest.mark.parametrize("t", FLOATS)
def test_expm1(kernels, t):
    x = sample(-9, 9, DTYPES[t])
    exact = torch.expm1(x.double())
    error = expm1_error(x.double()) + 0.5 * ulp(exact, x.dtype)
    assert_within(apply(kernels, f"Expm1_{t}", x), exact, error, f"expm1 of {t}")


@pytest.mark.parametrize("t", FLOATS)
def test_erf(kernels, t):
    """0.9953 ulp as its source says; beyond 0.9277 it is 1 - exp(p) by way of expm1f."""
    x = sample(-4, 4, DTYPES[t])
    exact = torch.erf(x.double())
    through_expm1 = expm1_error(torch.log(torch.erfc(x.double().abs())))
    error = 1.0 * ulp(exact, torch.float32) + 0.5 * ulp(exact, x.dtype)
    error = error + torch.where(x.double().abs() > 0.9277, through_expm1, 0.0)
    assert_within(apply(kernels, f"Erf_{t}", x), exact, error, f"erf of {t}")


@pytest.mark.parametrize("t", FLOATS)
def test_erfinv(kernels, t):
    """2.358 ulp as its source says."""
    x = sample(-0.99, 0.99, DTYPES[t])
    exact = torch.erfinv(x.double())
    error = 2.36 * ulp(exact, torch.float32) + 0.5 * ulp(exact, x.dtype)
    assert_within(apply(kernels, f"ErfInv_{t}", x), exact, error, f"erfinv of {t}")


@pytest.mark.parametrize("t", FLOATS)
def test_log1p(kernels, t):
    """Five units of rounding (Goldberg 1991, theorem 4), computed in float."""
    x = sample(-0.9, 9, DTYPES[t])
    exact = torch.log1p(x.double())
    error = 5 * unit(torch.float32) * exact.abs() + 0.51 * ulp(exact, x.dtype)
    assert_within(apply(kernels, f"Log1p_{t}", x), exact, error, f"log1p of {t}")


@pytest.mark.parametrize("t", FLOATS)
def test_sigmoid(kernels, t):
    """y = 1 / (1 + exp|x|) takes three roundings, 1 - y for positive x a fourth."""
    x = sample(-9, 9, DTYPES[t])
    exact = torch.sigmoid(x.double())
    small = torch.sigmoid(-x.double().abs())
    error = 3.1 * unit(x.dtype) * small + 0.5 * ulp(exact, x.dtype)
    assert_within(apply(kernels, f"Sigmoid_{t}", x), exact, error, f"sigmoid of {t}")


@pytest.mark.parametrize("layout", ["v2", "g"])
def test_layouts_give_the_same(kernels, layout):
    """The kernel for large arrays, and that for strided ones, compute the same bits."""
    x = sample(-9, 9, torch.float32)[:1000]
    expected = apply(kernels, "Exp_float", x)
    out = unwritten(1000, torch.float32)
    if layout == "v2":
        kernels("v2_Exp_float", [x, out, mlx.long(1000)], (50, 10), (32, 2))
    else:
        transposed = x.reshape(20, 50).t().contiguous()  # read back through its strides
        shape, strides = mlx.ints(20, 50), mlx.longs(1, 20)
        ndim = torch.tensor([2], dtype=torch.int32)
        kernels("g_Exp_float", [transposed, out, shape, strides, ndim], (25, 20, 1), (25, 1, 1))
    assert same_bits(out, expected)
