"""half and bfloat: every conversion and operation rounds to nearest, ties to even."""

import platform
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

ALL_PATTERNS = np.arange(65536, dtype=np.uint32).astype(np.uint16)

TABLE = {
    "half_to_float": ("float", "float(x)", "half"),
    "float_to_half": ("half", "half(x)", "float"),
    "bfloat_to_float": ("float", "float(x)", "bfloat"),
    "float_to_bfloat": ("bfloat", "bfloat(x)", "float"),
    "half_to_bfloat": ("bfloat", "bfloat(x)", "half"),
    "int_to_half": ("half", "half(x)", "int"),
    "int_to_bfloat": ("bfloat", "bfloat(x)", "int"),
    "half_add": ("half", "x + y", "half", "half"),
    "half_multiply": ("half", "x * y", "half", "half"),
    "half_divide": ("half", "x / y", "half", "half"),
    "half_fma": ("half", "fma(x, y, z)", "half", "half", "half"),
    "half_sqrt": ("half", "sqrt(x)", "half"),
    "half_store": ("half", "x * 3.0f", "float"),
    "bfloat_add": ("bfloat", "x + y", "bfloat", "bfloat"),
    "bfloat_multiply": ("bfloat", "x * y", "bfloat", "bfloat"),
    "bfloat_divide": ("bfloat", "x / y", "bfloat", "bfloat"),
    "bfloat_negate": ("bfloat", "-x", "bfloat"),
    "bfloat_and_float": ("float", "x * y", "bfloat", "float"),
    "bfloat_and_int": ("bfloat", "x * y", "bfloat", "int"),
    "bfloat_less": ("bool", "x < y", "bfloat", "bfloat"),
}


@pytest.fixture(scope="module")
def evaluate(run, expressions):
    """The expressions of TABLE."""
    table = expressions(TABLE)
    return lambda name, *inputs, **options: table(run, name, *inputs, **options)


def bits_of(floats):
    return np.asarray(floats, np.float32).view(np.uint32)


def bfloat_bits(floats):
    """Nearest bfloat of float32 values by exact arithmetic; independent of any bit trick."""
    bits = bits_of(floats)
    down = (bits >> 16).astype(np.uint32)
    rest = bits & 0xFFFF
    up = (rest > 0x8000) | ((rest == 0x8000) & (down % 2 == 1))
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return np.where(nan, down | 0x40, down + up).astype(np.uint16)


def widened(bfloats):
    return (np.asarray(bfloats, np.uint16).astype(np.uint32) << 16).view(np.float32)


def assert_same_bits(got, want):
    """Equal bit for bit; two NaNs are equal."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    unsigned = {2: np.uint16, 4: np.uint32}[got.dtype.itemsize]
    differ = got.view(unsigned) != want.view(unsigned)
    if got.dtype.kind == "f":
        differ &= ~(np.isnan(got) & np.isnan(want))
    where = np.flatnonzero(differ)
    assert not len(where), (
        f"{len(where)} differ, first {where[0]}: {got[where[0]]} {want[where[0]]}"
    )


def around_halfway():
    """Floats at, and one ulp beside, every 16-bit value and every midpoint between two."""
    upper = ALL_PATTERNS.astype(np.uint32) << 16
    return np.concatenate([(upper + d).view(np.float32) for d in (0, 1, 0x7FFF, 0x8000, 0x8001)])


def around_half_midpoints():
    halves = ALL_PATTERNS.view(np.float16).astype(np.float32)
    finite = np.sort(halves[np.isfinite(halves)])
    middle = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
    beside = [np.nextafter(middle, np.float32(s), dtype=np.float32) for s in (-np.inf, np.inf)]
    edges = np.float32([65519.996, 65520, 65520.004, 1e30, np.inf, np.nan, 2.0**-25, 2.0**-26])
    return np.concatenate([finite, middle, *beside, edges, -edges])


@pytest.mark.parametrize("flush", [True, False])
def test_half_conversions_are_exact_for_all_patterns_whatever_becomes_of_subnormal_floats(
    evaluate, flush
):
    halves = ALL_PATTERNS.view(np.float16)
    options = {"flush_subnormals": flush}
    assert_same_bits(evaluate("half_to_float", halves, **options), halves.astype(np.float32))
    floats = around_half_midpoints()
    with np.errstate(over="ignore"):
        want = floats.astype(np.float16)
    assert_same_bits(evaluate("float_to_half", floats, **options), want)


@pytest.mark.parametrize("flush", [True, False])
def test_bfloat_conversions_are_exact_for_all_patterns_whatever_becomes_of_subnormal_floats(
    evaluate, flush
):
    options = {"flush_subnormals": flush}
    assert_same_bits(
        bits_of(evaluate("bfloat_to_float", ALL_PATTERNS, **options)),
        ALL_PATTERNS.astype(np.uint32) << 16,
    )
    floats = around_halfway()
    assert_same_bits(evaluate("float_to_bfloat", floats, **options), bfloat_bits(floats))


def test_a_nan_stays_a_quiet_nan(evaluate):
    nans = np.uint32([0x7F800001, 0xFF800001, 0x7FC00000, 0x7FFFFFFF, 0x7F80FFFF]).view(np.float32)
    bits = evaluate("float_to_bfloat", nans)
    assert ((bits & 0x7F80) == 0x7F80).all()
    assert ((bits & 0x40) != 0).all()
    assert list(bits >> 15) == [0, 1, 0, 0, 0]
    assert np.isnan(evaluate("float_to_half", nans)).all()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(width=32), min_size=1, max_size=200))
def test_any_float_rounds_to_the_nearest(evaluate, values):
    floats = np.array(values, np.float32)
    assert_same_bits(evaluate("float_to_bfloat", floats), bfloat_bits(floats))
    with np.errstate(over="ignore"):
        assert_same_bits(evaluate("float_to_half", floats), floats.astype(np.float16))


def test_integers_convert_with_one_rounding(evaluate):
    integers = np.int32([0, 1, -1, 2047, 2049, 2051, -2049, 4097, 4099, 65519, 255, 257, 259, -513])
    assert_same_bits(evaluate("int_to_half", integers), integers.astype(np.float16))
    assert_same_bits(evaluate("int_to_bfloat", integers), bfloat_bits(integers.astype(np.float32)))


@pytest.mark.parametrize(
    ("name", "operation"),
    [("half_add", np.add), ("half_multiply", np.multiply), ("half_divide", np.divide)],
)
def test_half_arithmetic_rounds_each_operation(evaluate, name, operation):
    rng = np.random.default_rng(1)
    x, y = (rng.integers(0, 65536, 100_000).astype(np.uint16).view(np.float16) for _ in range(2))
    with np.errstate(all="ignore"):
        want = operation(x, y)
    assert_same_bits(evaluate(name, x, y), want)


@pytest.mark.parametrize(
    ("name", "operation"),
    [("bfloat_add", np.add), ("bfloat_multiply", np.multiply), ("bfloat_divide", np.divide)],
)
def test_bfloat_arithmetic_rounds_each_operation(evaluate, name, operation):
    rng = np.random.default_rng(2)
    x, y = (rng.integers(0, 65536, 100_000).astype(np.uint16) for _ in range(2))
    with np.errstate(all="ignore"):
        want = bfloat_bits(operation(widened(x), widened(y)))
    got = evaluate(name, x, y, flush_subnormals=False)
    assert_same_bits(widened(got), widened(want))


def test_half_fma_rounds_once(evaluate):
    rng = np.random.default_rng(3)
    x, y, z = (rng.integers(0, 65536, 3000).astype(np.uint16).view(np.float16) for _ in range(3))
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    x, y, z = x[finite], y[finite], z[finite]
    # The hard cases: a product that is a midpoint between two halves, moved by a tiny z.
    halfway = (
        np.float16([1 + 2**-10, 1.5, 1 + 2**-5]),
        np.float16([1 + 2**-10, 1 + 2**-10, 1 + 2**-6]),
    )
    for sign in (0, 1, -1):
        x, y = np.append(x, halfway[0]), np.append(y, halfway[1])
        z = np.append(z, np.full(3, sign * 2.0**-24, np.float16))
    got = evaluate("half_fma", x, y, z)
    for a, b, c, r in zip(x, y, z, got, strict=True):
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        assert r == nearest_half(exact) or (np.isinf(r) and abs(exact) >= 65520), (a, b, c, r)


def nearest_half(exact):
    """The half nearest to a rational number, ties to even; infinite above 65520."""
    if abs(exact) >= 65520:
        return np.float16(np.inf) * (1 if exact > 0 else -1)
    scale = Fraction(1, 2**24)
    while abs(exact) >= 2048 * scale:
        scale *= 2
    return np.float16(float(round(exact / scale) * scale))


def test_mixed_arithmetic_has_the_type_that_msl_gives_it(evaluate):
    x = bfloat_bits(np.float32([1.5, -2.25, 3]))
    floats = np.float32([1.001, 7.77, 0.1])
    assert_same_bits(evaluate("bfloat_and_float", x, floats), widened(x) * floats)
    integers = np.int32([3, 5, 7])
    want = bfloat_bits(widened(x) * integers.astype(np.float32))
    assert_same_bits(evaluate("bfloat_and_int", x, integers), want)
    assert list(evaluate("bfloat_less", x, x[::-1])) == [True, False, False]
    assert_same_bits(evaluate("bfloat_negate", ALL_PATTERNS), ALL_PATTERNS ^ np.uint16(0x8000))


def test_a_float_result_is_rounded_once_when_stored_as_half(evaluate):
    floats = np.random.default_rng(4).standard_normal(1000).astype(np.float32)
    assert_same_bits(evaluate("half_store", floats), (floats * np.float32(3)).astype(np.float16))


def test_half_sqrt_is_correctly_rounded(evaluate):
    halves = ALL_PATTERNS.view(np.float16)
    with np.errstate(invalid="ignore"):
        want = np.sqrt(halves.astype(np.float64)).astype(np.float16)
    assert_same_bits(evaluate("half_sqrt", halves), want)


@pytest.mark.parametrize(
    "statement",
    ["bfloat b = 1.5f; x[0] = float(b);", "float f = 1; bfloat b; b = f; x[0] = float(b);"],
)
def test_a_float_does_not_become_a_bfloat_by_itself(run, statement):
    source = f"kernel void k(device float* x) {{ {statement} }}"
    with pytest.raises(
        Exception, match=r"no viable (conversion from 'float' to 'bfloat'|overloaded '=')"
    ):
        run(source, "k", [np.zeros(1, np.float32)], 1)


def test_conversions_are_exact_without_the_processors_own_instructions(
    run, expressions, monkeypatch
):
    if platform.machine() != "x86_64":
        pytest.skip("other processors have no baseline without them")
    monkeypatch.setenv("SOFTMETAL_CPU", "x86-64")  # no F16C
    table = expressions(TABLE)
    table.source += "\n// for the baseline"
    halves = ALL_PATTERNS.view(np.float16)
    assert_same_bits(table(run, "half_to_float", halves), halves.astype(np.float32))
    floats = around_half_midpoints()
    with np.errstate(over="ignore"):
        want = floats.astype(np.float16)
    assert_same_bits(table(run, "float_to_half", floats), want)
    assert_same_bits(table(run, "half_to_bfloat", halves), bfloat_bits(halves.astype(np.float32)))
