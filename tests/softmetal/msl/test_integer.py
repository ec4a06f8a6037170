"""<metal_integer> against Python's integers."""

import numpy as np
import pytest

BITS = {
    "char": 8,
    "uchar": 8,
    "short": 16,
    "ushort": 16,
    "int": 32,
    "uint": 32,
    "long": 64,
    "ulong": 64,
}


def signed(name):
    return not name.startswith("u")


def bounds(name):
    bits = BITS[name]
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed(name) else (0, (1 << bits) - 1)


def unsigned(value, name):
    return value & ((1 << BITS[name]) - 1)


def wrap(value, name):
    value = unsigned(value, name)
    return value - (1 << BITS[name]) if signed(name) and value >> BITS[name] - 1 else value


def saturate(value, name):
    low, high = bounds(name)
    return min(max(value, low), high)


def rotate(x, n, name):
    bits = BITS[name]
    u, n = unsigned(x, name), n % bits
    return wrap(u << n | u >> bits - n, name)


def reverse(x, name):
    return wrap(int(f"{unsigned(x, name):0{BITS[name]}b}"[::-1], 2), name)


ONE = {
    "clz": lambda x, t: BITS[t] - unsigned(x, t).bit_length(),
    "ctz": lambda x, t: (unsigned(x, t) & -unsigned(x, t)).bit_length() - 1 if x else BITS[t],
    "popcount": lambda x, t: unsigned(x, t).bit_count(),
    "reverse_bits": reverse,
    "abs": lambda x, t: wrap(abs(x), t),
}
TWO = {
    "min": lambda x, y, t: min(x, y),
    "max": lambda x, y, t: max(x, y),
    "mulhi": lambda x, y, t: wrap(x * y >> BITS[t], t),
    "addsat": lambda x, y, t: saturate(x + y, t),
    "subsat": lambda x, y, t: saturate(x - y, t),
    "hadd": lambda x, y, t: x + y >> 1,
    "rhadd": lambda x, y, t: x + y + 1 >> 1,
    "rotate": rotate,
    "absdiff": lambda x, y, t: wrap(abs(x - y), t),
}
THREE = {
    "clamp": lambda x, y, z, t: min(max(x, y), z),
    "madhi": lambda x, y, z, t: wrap((x * y >> BITS[t]) + z, t),
    "madsat": lambda x, y, z, t: saturate(x * y + z, t),
    "median3": lambda x, y, z, t: sorted((x, y, z))[1],
    "min3": lambda x, y, z, t: min(x, y, z),
    "max3": lambda x, y, z, t: max(x, y, z),
}
WORDS = {1: ONE, 2: TWO, 3: THREE}


FUNCTIONS = [(count, name) for count, names in WORDS.items() for name in names]


def all_functions(t):
    """A kernel that stores the result of every function for each element."""
    calls = [f"{t}({name}({', '.join('xyz'[:count])}))" for count, name in FUNCTIONS]
    stores = "\n".join(f"  out[{len(calls)} * i + {k}] = {c};" for k, c in enumerate(calls))
    inputs = "".join(f", device const {t}* p{v}" for v in "xyz")
    loads = " ".join(f"{t} {v} = p{v}[i];" for v in "xyz")
    return (
        f"kernel void all_{t}(device {t}* out{inputs}, uint i [[thread_position_in_grid]]) {{\n"
        f"  {loads}\n{stores}\n}}\n"
    )


def samples(t, count):
    low, high = bounds(t)
    edges = [low, high, 0, 1, high - 1, low + 1, high // 2, wrap(-1, t)]
    rng = np.random.default_rng(BITS[t])
    values = [
        int(rng.integers(low, high, dtype=np.int64 if signed(t) else np.uint64, endpoint=True))
        for _ in range(40)
    ]
    small = [int(rng.integers(0, 70)) for _ in range(10)]
    values = edges + values + small
    return [
        [values[(7 * i * i + i * k + k) % len(values)] for i in range(200)] for k in range(count)
    ]


@pytest.mark.parametrize("t", BITS)
def test_each_function_is_exact(run, t):
    dtype = np.dtype(f"{'i' if signed(t) else 'u'}{BITS[t] // 8}")
    inputs = samples(t, 3)
    out = np.zeros((len(inputs[0]), len(FUNCTIONS)), dtype)
    source = "".join(all_functions(name) for name in BITS)
    run(source, f"all_{t}", [out, *(np.array(v, dtype) for v in inputs)], len(out))
    for values, row in zip(zip(*inputs, strict=True), out, strict=True):
        for (count, name), result in zip(FUNCTIONS, row, strict=True):
            want = WORDS[count][name](*values[:count], t)
            assert int(result) == want, (name, values[:count])


SOURCE = """
kernel void bits(device uint* out [[buffer(0)]], device const uint* x [[buffer(1)]]) {
  out[0] = extract_bits(x[0], 4, 8);
  out[1] = uint(extract_bits(int(x[0]), 4, 8));
  out[2] = insert_bits(x[0], 0x5u, 8, 4);
  out[3] = extract_bits(x[0], 0, 32);
  out[4] = mul24(x[0], 3u);
  out[5] = mad24(0x1000001u, 3u, 4u);
  uint2 v = popcount(uint2(x[0], 7));
  out[6] = v.x; out[7] = v.y;
  out[8] = max(uint4(1, 2, 3, 4), uint4(4, 3, 2, 1)).y;
}
kernel void conversions(device int* out [[buffer(0)]], device const float* x [[buffer(1)]]) {
  for (int i = 0; i < 6; ++i) out[i] = int(x[i]);
  out[6] = int(uint(x[1]) >> 16);
  out[7] = char(x[6]);
}
kernel void wrapping(device int* out [[buffer(0)]], device const int* x [[buffer(1)]]) {
  out[0] = x[0] + 1;
  out[1] = x[0] * x[0];
  char c = char(200);
  out[2] = c;
  ulong big = ulong(x[1]) << 40;
  out[3] = int(big >> 40);
}
"""


def test_bit_fields(run):
    out, x = np.zeros(9, np.uint32), 0xABCD1F32
    run(SOURCE, "bits", [out, np.uint32([x])], 1)
    assert out.tolist() == [
        0xF3,
        0xFFFFFFF3,
        0xABCD1532,
        x,
        (x & 0xFFFFFF) * 3 & 0xFFFFFFFF,
        7,
        x.bit_count(),
        3,
        3,
    ]


def test_floats_out_of_range_saturate_and_nan_becomes_zero(run):
    x = np.float32([1e10, -1e10, np.nan, np.inf, -2147483648.0, 2147483520.0, 77.9])
    out = np.zeros(8, np.int32)
    run(SOURCE, "conversions", [out, x], 1)
    high, low = 2**31 - 1, -(2**31)
    assert out.tolist() == [high, low, 0, high, low, 2147483520, 0, 77]


def test_integers_wrap_and_char_is_signed(run):
    out = np.zeros(4, np.int32)
    run(SOURCE, "wrapping", [out, np.int32([2**31 - 1, 123456])], 1)
    assert out.tolist() == [-(2**31), 1, -56, 123456]
