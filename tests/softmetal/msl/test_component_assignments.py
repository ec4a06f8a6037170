"""Compound assignments to components of vectors, in templates and outside, for every type."""

import numpy as np
import pytest

SOURCE = """
template <class T> T in_template(T a, T b) {
  vec<T, 4> v = vec<T, 4>(a, b, a, b);
  thread vec<T, 4>* p = &v;
  vec<T, 2> w[2] = {vec<T, 2>(a, b), vec<T, 2>(b, a)};
  for (v.x = a; v.x < T(9); v.x += b, v.y++) if (v.z < T(50)) v.z += v.x * T(2);
  v.x -= T(1); ++v.y; p->z /= T(2); w[1].x *= T(3); --w[0].y; v.zw *= T(2); v.w -= v.x - v.y;
  return v.x + v.y + v.z + v.w + w[1].x + w[0].y;
}
kernel void f_int(device int* x) { x[2] = in_template<int>(x[0], x[1]); }
kernel void f_float(device float* x) { x[2] = in_template<float>(x[0], x[1]); }
kernel void bits(device uint* x) {
  uint4 v = uint4(x[0]);
  v.x <<= 3; v.y >>= 2; v.z ^= 0xff; v.w &= 0xf0; v.w |= 1; v.y %= 7;
  x[1] = v.x; x[2] = v.y; x[3] = v.z; x[4] = v.w;
}
kernel void narrow(device bfloat* x) {
  bfloat4 v = bfloat4(1.0bf);
  v.x += 0.5f; v.y *= 3.0f;
  x[0] = v.x; x[1] = v.y;
}
"""


def in_template(a, b):
    x, y, z, w = a, b, a, b
    while x < 9:
        if z < 50:
            z += x * 2
        x, y = x + b, y + 1
    x, y, z, wx, wy = x - 1, y + 1, z / 2, b * 3, b - 1
    z, w = z * 2, w * 2
    return x + y + z + w - (x - y) + wx + wy


@pytest.mark.parametrize("kernel", ["f_int", "f_float"])
def test_each_operator(run, kernel):
    x = np.array([2, 3, 0], np.int32 if kernel == "f_int" else np.float32)
    run(SOURCE, kernel, [x], 1)
    assert x[2] == in_template(2, 3)


def test_bits(run):
    x = np.zeros(5, np.uint32)
    x[0] = 0xAB
    run(SOURCE, "bits", [x], 1)
    assert x[1:].tolist() == [0xAB << 3, (0xAB >> 2) % 7, 0xAB ^ 0xFF, 0xA1]


def test_a_component_narrows_as_a_scalar_does(run):
    x = np.zeros(2, np.uint16)
    run(SOURCE, "narrow", [x], 1)
    assert x.tolist() == [0x3FC0, 0x4040]  # 1.5 and 3
