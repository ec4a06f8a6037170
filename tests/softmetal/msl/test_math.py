"""<metal_math> against float64, in ulp of float32."""

import numpy as np
import pytest


def spread(low, high, seed=0, count=4000):
    """Values of both signs if low < 0, dense near zero."""
    rng = np.random.default_rng(seed)
    uniform = rng.uniform(low, high, count)
    scaled = np.exp(rng.uniform(np.log(1e-6), np.log(max(abs(low), abs(high))), count))
    signs = rng.choice([-1, 1], count) if low < 0 else 1
    values = np.concatenate([uniform, scaled * signs, [low, high]])
    return np.clip(values, low, high).astype(np.float32)


def fract(x):
    return np.minimum(x - np.floor(x), np.float64(np.float32(1) - np.finfo(np.float32).epsneg))


def sinpi(x):
    """sin(pi x): the rest of x is exact, and pi's error small against its sine."""
    whole = np.rint(x)
    return np.sin(np.pi * (x - whole)) * np.where(whole % 2, -1, 1)


def cospi(x):
    """cos(pi x) as the sine of what is left to its zero."""
    whole = np.rint(x)
    return np.sin(np.pi * (0.5 - np.abs(x - whole))) * np.where(whole % 2, -1, 1)


# Rounded once from double: half an ulp and what the reference and the result lost in double.
ROUNDED = 0.51

# name: (reference, domain, ulp)
ONE = {
    "acos": (np.arccos, (-1, 1), ROUNDED),
    "asin": (np.arcsin, (-1, 1), ROUNDED),
    "atan": (np.arctan, (-100, 100), ROUNDED),
    "acosh": (np.arccosh, (1, 1e5), ROUNDED),
    "asinh": (np.arcsinh, (-1e5, 1e5), ROUNDED),
    "atanh": (np.arctanh, (-0.999, 0.999), ROUNDED),
    "cos": (np.cos, (-1e4, 1e4), ROUNDED),
    "sin": (np.sin, (-1e4, 1e4), ROUNDED),
    "tan": (np.tan, (-1e4, 1e4), ROUNDED),
    "cosh": (np.cosh, (-80, 80), ROUNDED),
    "sinh": (np.sinh, (-80, 80), ROUNDED),
    "tanh": (np.tanh, (-20, 20), ROUNDED),
    "exp": (np.exp, (-80, 80), ROUNDED),
    "exp2": (np.exp2, (-120, 120), ROUNDED),
    "exp10": (lambda x: 10.0**x, (-35, 35), ROUNDED),
    "log": (np.log, (1e-30, 1e30), ROUNDED),
    "log2": (np.log2, (1e-30, 1e30), ROUNDED),
    "log10": (np.log10, (1e-30, 1e30), ROUNDED),
    "sqrt": (np.sqrt, (0, 1e30), ROUNDED),
    "rsqrt": (lambda x: 1 / np.sqrt(x), (1e-30, 1e30), ROUNDED),
    "sinpi": (sinpi, (-1000, 1000), ROUNDED),
    "cospi": (cospi, (-1000, 1000), ROUNDED),
    "floor": (np.floor, (-1e6, 1e6), 0),
    "ceil": (np.ceil, (-1e6, 1e6), 0),
    "trunc": (np.trunc, (-1e6, 1e6), 0),
    "rint": (np.rint, (-1e6, 1e6), 0),
    "round": (lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5), (-1e6, 1e6), 0),
    "fabs": (np.abs, (-1e6, 1e6), 0),
    "abs": (np.abs, (-1e6, 1e6), 0),
    "sign": (np.sign, (-1e6, 1e6), 0),
    "saturate": (lambda x: np.clip(x, 0, 1), (-3, 3), 0),
    "fract": (fract, (-1000, 1000), ROUNDED),
}
TWO = {
    "pow": (np.power, (1e-3, 1e3), (-9, 9), ROUNDED),
    "powr": (np.power, (1e-3, 1e3), (-9, 9), ROUNDED),
    "atan2": (np.arctan2, (-10, 10), (-10, 10), ROUNDED),
    "fmod": (np.fmod, (-1e4, 1e4), (0.1, 10), 0),
    "fmin": (np.minimum, (-10, 10), (-10, 10), 0),
    "fmax": (np.maximum, (-10, 10), (-10, 10), 0),
    "max": (np.maximum, (-10, 10), (-10, 10), 0),
    "min": (np.minimum, (-10, 10), (-10, 10), 0),
    "copysign": (np.copysign, (-10, 10), (-10, 10), 0),
    "fdim": (lambda x, y: np.maximum(x - y, 0), (-10, 10), (-10, 10), ROUNDED),
    "divide": (np.divide, (-10, 10), (0.1, 10), ROUNDED),
    "step": (lambda x, y: np.where(y < x, 0.0, 1.0), (-1, 1), (-1, 1), 0),
}


HALF = ["exp", "sin", "sqrt", "tanh", "log", "floor", "rsqrt"]
VARIANTS = ["metal", "fast", "precise", "vector"]


@pytest.fixture(scope="module")
def evaluate(run, expressions):
    """All four variants of every function in one kernel, and some for half."""
    table = {}
    for count, functions in ((1, ONE), (2, TWO)):
        arguments = ", ".join("xy"[:count])
        vectors = ", ".join(f"float3({a})" for a in "xy"[:count])
        for name in functions:
            calls = [f"metal::{space}{name}({arguments})" for space in ("", "fast::", "precise::")]
            calls.append(f"{name}({vectors}).z")
            table[name] = ("float4", f"float4({', '.join(calls)})", *["float"] * count)
    for name in HALF:
        table[f"half_{name}"] = ("half", f"{name}(x)", "half")
    compiled = expressions(table)
    return lambda name, *inputs: compiled(run, name, *inputs)


def ulps(got, want):
    """Distance of float32 results from exact ones, in units of the spacing there."""
    spacing = np.spacing(np.maximum(np.abs(want), np.finfo(np.float32).tiny).astype(np.float32))
    return np.max(np.abs(got.astype(np.float64) - want) / spacing)


@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_argument_stay_within_their_bound(evaluate, name):
    reference, domain, bound = ONE[name]
    x = spread(*domain)
    want = reference(x.astype(np.float64))
    for variant, got in zip(VARIANTS, evaluate(name, x).T, strict=True):
        assert ulps(got, want) <= bound, variant


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_arguments_stay_within_their_bound(evaluate, name):
    reference, first, second, bound = TWO[name]
    x, y = spread(*first), spread(*second, seed=1)
    want = reference(x.astype(np.float64), y.astype(np.float64))
    for variant, got in zip(VARIANTS, evaluate(name, x, y).T, strict=True):
        assert ulps(got, want) <= bound, variant


@pytest.mark.parametrize("name", HALF)
def test_half_functions_are_float_functions_rounded_once(evaluate, name):
    _, (low, high), _ = ONE[name]
    x = spread(max(low, -8), min(high, 8)).astype(np.float16)
    x = np.clip(x, np.float16(max(low, 1e-3) if low >= 0 else -8), None)
    want = evaluate(name, x.astype(np.float32))[:, 0].astype(np.float16)
    assert np.array_equal(evaluate(f"half_{name}", x), want)


SOURCE = """
kernel void special(device float* out [[buffer(0)]], device const float* x [[buffer(1)]]) {
  float nan = x[0], infinity = x[1], zero = x[2], minus_zero = x[3];
  out[0] = fmax(nan, 1.0); out[1] = fmin(1.0, nan); out[2] = max(nan, nan);
  out[3] = sign(nan); out[4] = sign(minus_zero); out[5] = sqrt(-1.0 + zero);
  out[6] = exp(infinity); out[7] = log(zero); out[8] = powr(-1.0 + zero, 2.0);
  out[9] = pow(nan, zero); out[10] = fract(-1e-30); out[11] = clamp(nan, 0.0, 1.0);
  out[12] = sinpi(1.0 + zero); out[13] = cospi(0.5 + zero); out[14] = tanpi(1.0 + zero);
  out[15] = saturate(infinity); out[16] = rint(2.5 + zero); out[17] = round(2.5 + zero);
}
kernel void others(device float* out [[buffer(0)]], device const float* x [[buffer(1)]]) {
  int e; float whole, c;
  out[0] = frexp(x[0], e); out[1] = e;
  out[2] = ldexp(x[0], 3);
  out[3] = modf(x[1], whole); out[4] = whole;
  out[5] = sincos(x[0], c); out[6] = c;
  out[7] = mix(x[0], x[1], 0.25); out[8] = smoothstep(0.0, 10.0, x[0]);
  out[9] = ilogb(x[0]); out[10] = clamp(x[0], 0.0, 1.0); out[11] = fma(x[0], x[1], x[0]);
  out[12] = median3(x[0], x[1], 0.0); out[13] = max3(x[0], x[1], 9.0);
  out[14] = min3(x[0], x[1], 9.0);
  out[15] = nextafter(x[0], 100.0); out[16] = nextafter(0.0, -1.0);
  out[17] = nextafter(half(1), half(2));
  out[18] = dot(float3(x[0]), float3(1, 2, 3)); out[19] = length(float2(3, 4));
  out[20] = cross(float3(1, 0, 0), float3(0, 1, 0)).z; out[21] = normalize(float2(0, 5)).y;
  out[22] = distance(float2(1, 1), float2(4, 5));
}
kernel void contraction(device float* out [[buffer(0)]], device const float* x [[buffer(1)]]) {
#pragma clang fp contract(fast)
  out[0] = x[0] * x[0] - x[1];
  out[1] = fma(x[0], x[0], -x[1]);
}
kernel void subnormal(device float* out [[buffer(0)]], device const float* x [[buffer(1)]]) {
  out[0] = x[0] * 0.5; out[1] = x[1] + 0.0; out[2] = half(x[2]) * 1.0h;
}
"""


def test_special_values(run):
    out = np.zeros(18, np.float32)
    run(SOURCE, "special", [out, np.float32([np.nan, np.inf, 0, -0.0])], 1)
    nan, below_one = np.nan, np.float32(1) - np.float32(2**-24)
    want = [1, 1, nan, 0, -0.0, nan, np.inf, -np.inf, nan, 1, below_one, 0, 0, 0, 0, 1, 2, 3]
    assert np.array_equal(out, np.float32(want), equal_nan=True)
    assert np.signbit(out[4])


def test_the_other_functions(run):
    x = np.float32([3.7, -2.25])
    out = np.zeros(23, np.float32)
    run(SOURCE, "others", [out, x], 1)
    a, b = (float(v) for v in x)
    t = a / 10
    want = [a / 4, 2, 8 * a, -0.25, -2, np.sin(a), np.cos(a), a + (b - a) * 0.25]
    want += [t * t * (3 - 2 * t), 1, 1, a * b + a, 0, 9, b, np.nextafter(x[0], np.float32(100))]
    want += [-(2.0**-149), 1 + 2**-10, 6 * a, 5, 1, 1, 5]
    np.testing.assert_allclose(out, np.float32(want), rtol=3e-7, atol=0)
    assert out[15] == np.nextafter(x[0], np.float32(100))


def test_nothing_is_contracted_unless_written_as_fma(run):
    x = np.float32([1 + 2.0**-12, (1 + 2.0**-12) ** 2])
    out = np.zeros(2, np.float32)
    run(SOURCE, "contraction", [out, x], 1)
    assert out[0] == x[0] * x[0] - x[1]
    assert out[1] == float(x[0]) * float(x[0]) - float(x[1]) != out[0]


@pytest.mark.parametrize("flush", [True, False])
def test_subnormal_floats_are_flushed_as_asked_and_subnormal_halves_never(run, flush):
    x = np.float32([2.0**-126, 2.0**-130, 2.0**-20])
    out = np.zeros(3, np.float32)
    run(SOURCE, "subnormal", [out, x], 1, flush_subnormals=flush)
    kept = np.float32([2.0**-127, 2.0**-130])
    assert out[:2].tolist() == ([0, 0] if flush else kept.tolist())
    assert out[2] == np.float32(2.0**-20)


CLASSES = """
kernel void classify(device uint* out [[buffer(0)]], device const float* x [[buffer(1)]],
                     uint i [[thread_position_in_grid]]) {
  float v = x[i];
  out[i] = isnan(v) | isinf(v) << 1 | isfinite(v) << 2 | isnormal(v) << 3 | signbit(v) << 4
         | isunordered(v, 1.0f) << 5 | any(isnan(float3(0, v, 0))) << 6 | isnan(half(v)) << 7;
}
"""


def test_classification_looks_at_the_value(run):
    x = np.float32([1, -1, 0, -0.0, np.inf, -np.inf, np.nan, 2.0**-130])
    out = np.zeros(8, np.uint32)
    run(CLASSES, "classify", [out, x], 8)
    nan = 0b11100001
    assert [v & 0b11101111 for v in out] == [0b1100, 0b1100, 4, 4, 2, 2, nan, 4]
    assert (out >> 4 & 1).tolist()[:6] == [0, 1, 0, 1, 0, 1]
