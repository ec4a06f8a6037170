"""What is undefined on a GPU stops a kernel with the line at fault."""

import numpy as np
import pytest

SOURCE = """
inline int sometimes(uint at) {
  if (at > 3) return 1;
}
kernel void store_float4(device float* x [[buffer(0)]], constant uint& at [[buffer(1)]]) {
  *(device float4*)(x + at) = float4(1);
}
kernel void load_float4(device float* x [[buffer(0)]], constant uint& at [[buffer(1)]]) {
  float4 v = *(device float4*)(x + at);
  x[0] = v.x;
}
kernel void load_index(device float* x [[buffer(0)]], constant uint& at [[buffer(1)]]) {
  x[0] = ((device float2*)(x + at))[1].y;
}
kernel void load_ulong(device float* x [[buffer(0)]], constant uint& at [[buffer(1)]]) {
  x[0] = *(device ulong*)(x + at);
}
kernel void load_packed(device float* x [[buffer(0)]], constant uint& at [[buffer(1)]]) {
  packed_float4 v = *(device packed_float4*)(x + at);
  x[0] = v.y;
}
kernel void vector_index(device float* x [[buffer(0)]], constant uint& at [[buffer(1)]]) {
  float3 v(x[0], x[1], x[2]);
  x[0] = v[at];
}
kernel void array_index(device float* x [[buffer(0)]], constant uint& at [[buffer(1)]]) {
  float v[3] = {x[0], x[1], x[2]};
  x[0] = v[at];
}
kernel void negative_index(device float* x [[buffer(0)]], constant uint& at [[buffer(1)]]) {
  float v[3] = {x[0], x[1], x[2]};
  x[0] = v[-int(at)];
}
kernel void array_object(device float* x [[buffer(0)]], constant uint& at [[buffer(1)]]) {
  metal::array<float, 3> v = {{x[0], x[1], x[2]}};
  x[0] = v[at];
}
struct Counted {
  int n;
  float a[4];
};
kernel void last_member(device float* x [[buffer(0)]], constant uint& at [[buffer(1)]]) {
  device Counted* s = (device Counted*)x;
  s->a[at] = 3;
}
kernel void divide(device float* x [[buffer(0)]], constant uint& at [[buffer(1)]]) {
  x[0] = 7 / int(at);
}
kernel void remainder(device float* x [[buffer(0)]], constant uint& at [[buffer(1)]]) {
  x[0] = 7u % at;
}
kernel void shift(device float* x [[buffer(0)]], constant uint& at [[buffer(1)]]) {
  x[0] = 1u << at;
}
kernel void no_return(device float* x [[buffer(0)]], constant uint& at [[buffer(1)]]) {
  x[0] = sometimes(at);
}
kernel void in_fiber(device float* x [[buffer(0)]], constant uint& at [[buffer(1)]],
                     uint i [[thread_position_in_grid]]) {
  float v[3] = {x[0], x[1], x[2]};
  threadgroup_barrier(mem_flags::mem_device);
  x[i] = v[i + at];
}
kernel void garbage(device float* x [[buffer(0)]], constant uint& at [[buffer(1)]]) {
  float v[8];
  v[at] = 1;
  int whole;
  x[0] = v[at + 1];
  x[1] = whole;
}
"""

CASES = [  # kernel, harmless argument, harmful argument, message, text of the line
    ("store_float4", 4, 2, "address of '.*vec<float, 4>' must be a multiple of 16", "= float4(1)"),
    ("load_float4", 4, 1, "address of '.*vec<float, 4>' must be a multiple of 16", "float4 v = *"),
    ("load_index", 2, 1, "address of '.*vec<float, 2>' must be a multiple of 8", "[1].y"),
    ("load_ulong", 2, 1, "address of 'ulong'.* must be a multiple of 8", "*(device ulong*)"),
    ("vector_index", 2, 3, r"index 3 is out of bounds of 'float\[3\]'", "v(x[0]"),
    ("array_index", 2, 3, r"index 3 is out of bounds of 'float\[3\]'", "float v[3]"),
    ("negative_index", 0, 1, r"index -1 is out of bounds of 'float\[3\]'", "v[-int(at)]"),
    ("array_object", 2, 3, r"index 3 is out of bounds of 'float\[3\]'", "metal::array"),
    ("last_member", 3, 4, r"index 4 is out of bounds of 'float\[4\]'", "s->a[at] = 3"),
    ("divide", 1, 0, "integer division by zero, of type 'int'", "7 / int(at)"),
    ("remainder", 1, 0, "integer division by zero, of type 'unsigned int'", "7u % at"),
    ("shift", 31, 32, "shift by 32, which is out of range for 'unsigned int'", "1u << at"),
    ("no_return", 4, 3, "ended without a return", "inline int sometimes"),
    ("in_fiber", 0, 1, r"index 3 is out of bounds of 'float\[3\]'", "v[i + at]"),
]


def lines_of(text):
    return [n + 2 for n, line in enumerate(SOURCE.split("\n"), 1) if text in line]


@pytest.mark.parametrize(("kernel", "good", "bad", "message", "text"), CASES)
def test_an_undefined_operation_stops_the_kernel_with_its_line(
    run, kernel, good, bad, message, text
):
    threads = 3 if kernel == "in_fiber" else 1
    run(SOURCE, kernel, [np.arange(16, dtype=np.float32), np.uint32([good])], threads)
    with pytest.raises(Exception, match=message) as error:
        run(SOURCE, kernel, [np.arange(16, dtype=np.float32), np.uint32([bad])], threads)
    assert f"kernel '{kernel}'" in str(error.value)
    # The statement itself or, in two lines, the one after the declaration.
    near = [n + d for n in lines_of(text) for d in (0, 1)]
    assert any(f"program_source:{n}:" in str(error.value) for n in near), str(error.value)


def test_packed_vectors_need_no_alignment(run):
    x = np.arange(16, dtype=np.float32)
    run(SOURCE, "load_packed", [x, np.uint32([3])], 1)
    assert x[0] == 4


def test_private_memory_that_was_not_written_does_not_read_as_zero(run):
    x = np.zeros(2, np.float32)
    run(SOURCE, "garbage", [x, np.uint32([3])], 1)
    assert np.isnan(x[0])
    assert x[1] != 0
