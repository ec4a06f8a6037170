"""Vectors: layout, constructors, swizzles, operators, packed types, as_type."""

import itertools

import numpy as np
import pytest

SOURCE = """
kernel void construct(device float4* out [[buffer(0)]]) {
  float2 a(1, 2);
  float3 b(a, 3);
  float4 c(a, b.yz);
  out[0] = float4(7);
  out[1] = float4(b, 4);
  out[2] = float4(1, b);
  out[3] = float4(1, a, 9);
  out[4] = c;
  float4 d = {1, 2, 3, 4};
  out[5] = d;
  out[6] = 5.0;
  out[7] = float4(int4(-1, 2, -3, 4));
}
kernel void swizzle_writes(device float4* out [[buffer(0)]]) {
  float4 v(1, 2, 3, 4);
  v.xy = v.yx;        out[0] = v;
  v.wzyx = v;         out[1] = v;
  v.zx += float2(10); out[2] = v;
  v.rgb = float3(0);  out[3] = v;
  v.w *= 2;           out[4] = v;
  v[1] = 8;           out[5] = v;
}
kernel void layout(device uint* out [[buffer(0)]]) {
  out[0] = sizeof(float2); out[1] = sizeof(float3); out[2] = sizeof(float4);
  out[3] = alignof(float3); out[4] = sizeof(half3); out[5] = alignof(half4);
  out[6] = sizeof(packed_float3); out[7] = alignof(packed_float3); out[8] = sizeof(packed_half3);
  out[9] = sizeof(bfloat4); out[10] = sizeof(bool4); out[11] = sizeof(ulong3);
}
kernel void packed(device packed_float3* v [[buffer(0)]], device float3* out [[buffer(1)]],
                   uint i [[thread_position_in_grid]]) {
  float3 x = v[i];
  out[i] = x * 2 + v[i];
  v[i] = x.zyx;
  v[i].y += 100;
}
kernel void operators(device int4* out [[buffer(0)]], device const int4* in [[buffer(1)]]) {
  int4 a = in[0], b = in[1];
  out[0] = a + b; out[1] = a - b; out[2] = a * b; out[3] = a / b; out[4] = a % b;
  out[5] = a & b; out[6] = a | b; out[7] = a ^ b; out[8] = ~a; out[9] = -a;
  out[10] = a << b; out[11] = a >> b; out[12] = a + 1; out[13] = 10 - a;
  out[14] = int4(a < b); out[15] = select(a, b, a == b);
  out[16] = int4(any(a < b), all(a < b), 0, 0);
  out[17] = a; out[17] += b; ++out[17];
}
kernel void shifts(device uint2* out [[buffer(0)]]) {
  out[0] = uint2(1, 0x80000000) << uint2(33, 32);   // the count is taken modulo 32
  out[1] = uint2(8, 8) >> uint2(34, 1);
}
kernel void reinterpret(device uint* out [[buffer(0)]]) {
  out[0] = as_type<uint>(1.0);
  out[1] = as_type<uint>(half2(1, -2));
  out[2] = as_type<uint2>(ulong(0x0123456789abcdef)).y;
  out[3] = as_type<ushort>(bfloat(3.0));
}
kernel void wide_loads(device float* x [[buffer(0)]], device float* out [[buffer(1)]],
                       uint i [[thread_position_in_grid]]) {
  float4 v = ((device float4*)x)[i];
  *(device float4*)(out + 4 * i) = v.wzyx;
  uint4 bits = *reinterpret_cast<device const uint4*>(x + 4 * i);
  out[4 * i] = as_type<float>(bits.w);
}
kernel void mixed(device half4* out [[buffer(0)]], device const half4* in [[buffer(1)]]) {
  out[0] = in[0] * 2 + half4(1, 2, 3, 4);
  out[1] = half4(float4(in[0]) * 0.1);
}
"""


@pytest.fixture(scope="module")
def run_vectors(run):
    """Run a kernel of SOURCE and return its first buffer."""

    def run_kernel(kernel, out, *others, threads=1):
        run(SOURCE, kernel, [out, *others], threads)
        return out

    return run_kernel


def test_constructors_take_scalars_and_vectors_in_any_mix(run_vectors):
    out = run_vectors("construct", np.zeros((8, 4), np.float32))
    assert out.tolist() == [
        [7, 7, 7, 7],
        [1, 2, 3, 4],
        [1, 1, 2, 3],
        [1, 1, 2, 9],
        [1, 2, 2, 3],
        [1, 2, 3, 4],
        [5, 5, 5, 5],
        [-1, 2, -3, 4],
    ]


def test_swizzles_can_be_assigned(run_vectors):
    out = run_vectors("swizzle_writes", np.zeros((6, 4), np.float32))
    assert out.tolist() == [
        [2, 1, 3, 4],
        [4, 3, 1, 2],
        [14, 3, 11, 2],
        [0, 0, 0, 2],
        [0, 0, 0, 4],
        [0, 8, 0, 4],
    ]


@pytest.mark.parametrize(("letters", "longest"), [("xyzw", 4), ("rgba", 2)])
def test_every_swizzle_reads_its_components(run, letters, longest):
    lengths = range(2, longest + 1)
    words = ["".join(w) for n in lengths for w in itertools.product(letters, repeat=n)]
    body = "".join(
        f"{{ auto v = x.{word}; for (int k = 0; k < {len(word)}; ++k) out[{i}][k] = v[k]; }}\n"
        for i, word in enumerate(words)
    )
    source = f"kernel void k(device int4* out, device const int4* in) {{ int4 x = in[0];\n{body} }}"
    out = np.full((len(words), 4), -1, np.int32)
    run(source, "k", [out, np.int32([0, 1, 2, 3])], 1)
    for word, row in zip(words, out, strict=True):
        assert row[: len(word)].tolist() == [letters.index(c) for c in word], word


def test_sizes_and_alignments_are_those_of_msl(run_vectors):
    out = run_vectors("layout", np.zeros(12, np.uint32))
    assert out.tolist() == [8, 16, 16, 16, 8, 8, 12, 4, 6, 8, 4, 32]


def test_packed_vectors_lie_close_together(run_vectors):
    v = np.arange(12, dtype=np.float32).reshape(4, 3)
    before, out = v.copy(), np.zeros((4, 4), np.float32)
    run_vectors("packed", v, out, threads=4)
    assert np.array_equal(out[:, :3], before * 3)
    assert np.array_equal(v, before[:, ::-1] + [0, 100, 0])


def test_operators_work_by_component(run_vectors):
    a, b = np.int32([7, -8, 9, 100]), np.int32([2, 3, 9, 4])
    out = run_vectors("operators", np.zeros((18, 4), np.int32), np.stack([a, b]))
    truncated = (a / b).astype(np.int32)
    want = [a + b, a - b, a * b, truncated, a - truncated * b, a & b, a | b, a ^ b, ~a, -a]
    want += [a << b, a >> b, a + 1, 10 - a, a < b, np.where(a == b, b, a), [1, 0, 0, 0], a + b + 1]
    for i, (row, expected) in enumerate(zip(out, want, strict=True)):
        assert row.tolist() == [int(e) for e in expected], i


def test_shift_counts_are_taken_modulo_the_width(run_vectors):
    assert run_vectors("shifts", np.zeros((2, 2), np.uint32)).tolist() == [[2, 0x80000000], [2, 4]]


def test_as_type_keeps_the_bits(run_vectors):
    out = run_vectors("reinterpret", np.zeros(4, np.uint32))
    assert out.tolist() == [0x3F800000, 0xC0003C00, 0x01234567, 0x4040]


def test_vectors_load_and_store_through_casts_of_scalar_pointers(run_vectors):
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    run_vectors("wide_loads", x, out, threads=4)
    assert np.array_equal(out, x.reshape(4, 4)[:, ::-1].ravel())


def test_half_vectors_round_each_operation(run_vectors):
    x = np.float16([1.001, 2.5, 1000.5, -3.3])
    out = run_vectors("mixed", np.zeros((2, 4), np.float16), x)
    assert np.array_equal(out[0], x * np.float16(2) + np.float16([1, 2, 3, 4]))
    assert np.array_equal(out[1], (x.astype(np.float32) * np.float32(0.1)).astype(np.float16))


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("float4 v(1); v.xx = float2(1);", "names a component twice"),
        ("float4 v(1); thread float* p = &v.x;", "address of property expression requested"),
        ("float2 v(1); v.z = 1;", "no member named 'z'"),
        ("float2 v(1, 2, 3);", "no matching constructor"),
        ("int2 i(1); float2 v = i;", "no viable conversion"),
        ("uint u = as_type<uint>(half(1));", "as_type: the two types must have the same size"),
    ],
)
def test_what_msl_refuses_is_refused(run, statement, message):
    source = f"kernel void k(device float* x) {{\n {statement}\n}}"
    with pytest.raises(Exception, match=message) as error:
        run(source, "k", [np.zeros(1, np.float32)], 1)
    if "as_type" not in message and "twice" not in message:
        assert ":4:" in str(error.value)
