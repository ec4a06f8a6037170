"""Threadgroup memory: variables and arguments, undefined at the start of each threadgroup."""

import numpy as np
import pytest

SOURCE = """
kernel void undefined_argument(device float* out [[buffer(0)]],
                               threadgroup float* shared [[threadgroup(0)]],
                               uint i [[thread_position_in_grid]],
                               uint t [[thread_index_in_threadgroup]]) {
  out[i] = shared[t];
  shared[t] = 1;
}
kernel void undefined_variable(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]],
                               uint t [[thread_index_in_threadgroup]]) {
  threadgroup float shared[32];
  out[i] = shared[t];
  shared[t] = 1;
}
struct Pair { float a; half b[3]; };
template <typename T, int N>
kernel void many(device uint* out [[buffer(0)]], threadgroup uint* argument [[threadgroup(1)]],
                 threadgroup uint* other [[threadgroup(0)]],
                 uint t [[thread_index_in_threadgroup]], uint n [[threads_per_threadgroup]]) {
  constexpr int rows = 2;
  using Row = T[N];
  threadgroup Row grid[rows];
  threadgroup T a[N], b;
  threadgroup metal::array<Pair, 3> pairs;
  {
    threadgroup T inner[4];
    inner[t % 4] = t % 4;
  }
  for (uint k = t; k < N; k += n) { grid[0][k] = k; grid[1][k] = 100 + k; a[k] = 200 + k; }
  if (t == 0) { b = 7; pairs[2].b[1] = 5; other[3] = 33; argument[1] = 44; }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (t == n - 1) {
    out[0] = grid[0][N - 1]; out[1] = grid[1][0]; out[2] = a[1]; out[3] = b;
    out[4] = pairs[2].b[1]; out[5] = other[3]; out[6] = argument[1];
    out[7] = sizeof(grid) + sizeof(a) + sizeof(b);
  }
}
template [[host_name("many_uint")]] kernel void many<uint, 16>(
    device uint*, threadgroup uint*, threadgroup uint*, uint, uint);
template [[host_name("many_half")]] kernel void many<half, 9>(
    device uint*, threadgroup uint*, threadgroup uint*, uint, uint);
kernel void beyond(device float* out [[buffer(0)]], constant uint& at [[buffer(1)]],
                   uint t [[thread_index_in_threadgroup]]) {
  threadgroup float shared[32];
  shared[t] = t;
  out[t] = shared[at];
}
"""


@pytest.mark.parametrize("kernel", ["undefined_argument", "undefined_variable"])
def test_contents_are_undefined_at_the_start_of_every_threadgroup(run, kernel):
    out = np.zeros(128, np.float32)
    run(SOURCE, kernel, [out], 128, 32, threadgroup_memory=[128] if "arg" in kernel else [])
    groups = out.reshape(4, 32)
    # NaN, so that a sum shows it, and a huge number, so that a maximum does.
    assert np.isnan(groups[0::2]).all()
    assert (groups[1::2] > 3e38).all()


@pytest.mark.parametrize(("kernel", "count", "size"), [("many_uint", 16, 4), ("many_half", 9, 2)])
def test_variables_of_every_shape_are_apart_from_each_other_and_from_arguments(
    run, kernel, count, size
):
    out = np.zeros(8, np.uint32)
    run(SOURCE, kernel, [out], 8, threadgroup_memory=[16, 16])
    assert out.tolist() == [count - 1, 100, 201, 7, 5, 33, 44, 3 * count * size + size]


def test_an_index_beyond_an_array_is_refused(run):
    out = np.zeros(32, np.float32)
    run(SOURCE, "beyond", [out, np.uint32([31])], 32)
    assert (out[31:] == 31).all()
    with pytest.raises(Exception, match=r"index 32 is out of bounds of 'float\[32\]'"):
        run(SOURCE, "beyond", [out, np.uint32([32])], 32)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "inline float f(float v) {\n threadgroup float s[4]; s[0] = v; return s[0]; }",
            "only be declared in a kernel; pass it to 'f'",
        ),
        (
            "kernel void k(device float* x) {\n threadgroup float s = 1; x[0] = s; }",
            "cannot be initialized",
        ),
    ],
)
def test_declarations_that_msl_refuses(run, source, message):
    with pytest.raises(Exception, match=message) as error:
        run(
            source + "\nkernel void other(device float* x) {}",
            "other",
            [np.zeros(1, np.float32)],
            1,
        )
    assert "program_source:4: error" in str(error.value)
