"""threadgroup_barrier: who waits, in threadgroups of every size, and what is refused."""

import numpy as np
import pytest

from mps_ds import softmetal


@pytest.fixture(autouse=True, params=["forward", "reverse"])
def _order(request):
    """Every test of this file runs in both orders of threads."""
    with softmetal.changed_settings(order=getattr(softmetal.Order, request.param.upper())):
        yield


SOURCE = """
kernel void reverse(device uint* x [[buffer(0)]], threadgroup uint* shared [[threadgroup(0)]],
                    uint i [[thread_index_in_threadgroup]], uint n [[threads_per_threadgroup]],
                    uint group [[threadgroup_position_in_grid]],
                    uint full [[dispatch_threads_per_threadgroup]]) {
  device uint* mine = x + group * full;
  shared[i] = mine[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  mine[i] = shared[n - 1 - i];
}
kernel void rotate_often(device uint* x [[buffer(0)]], constant uint& times [[buffer(1)]],
                         uint i [[thread_index_in_threadgroup]],
                         uint n [[threads_per_threadgroup]]) {
  threadgroup uint shared[1024];
  for (uint k = 0; k < times; ++k) {
    shared[i] = x[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    x[i] = shared[(i + 1) % n];
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
}
inline void synchronise() { threadgroup_barrier(mem_flags::mem_threadgroup); }
template <uint depth> struct Tree {
  static void sum(threadgroup float* shared, uint i) {
    if (i < depth) shared[i] += shared[i + depth];
    synchronise();
    Tree<depth / 2>::sum(shared, i);
  }
};
template <> struct Tree<0> { static void sum(threadgroup float*, uint) {} };
kernel void tree_sum(device const float* x [[buffer(0)]], device float* out [[buffer(1)]],
                     uint i [[thread_index_in_threadgroup]]) {
  threadgroup float shared[1024];
  shared[i] = x[i];
  synchronise();
  Tree<512>::sum(shared, i);
  if (i == 0) *out = shared[0];
}
kernel void uniform_branch(device uint* x [[buffer(0)]], uint i [[thread_index_in_threadgroup]],
                           uint group [[threadgroup_position_in_grid]],
                           uint n [[threads_per_threadgroup]]) {
  threadgroup uint shared[64];
  if (group % 2 == 0) {
    shared[i] = i;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    x[group * n + i] = shared[n - 1 - i];
  }
}
kernel void return_before(device uint* x [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  if (i >= 40) return;
  threadgroup_barrier(mem_flags::mem_device);
  x[i] = i;
}
kernel void in_a_branch(device uint* x [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  if (i < 8) threadgroup_barrier(mem_flags::mem_none);
  x[i] = i;
}
kernel void two_barriers(device uint* x [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  if (i < 8) {
    threadgroup_barrier(mem_flags::mem_none);
  } else {
    threadgroup_barrier(mem_flags::mem_none);
  }
  x[i] = i;
}
kernel void lid_3d(device uint4* x [[buffer(0)]], uint3 at [[thread_position_in_grid]],
                   uint3 in_group [[thread_position_in_threadgroup]],
                   uint3 size [[threads_per_threadgroup]], uint3 grid [[threads_per_grid]],
                   uint3 group [[threadgroup_position_in_grid]],
                   uint3 groups [[threadgroups_per_grid]],
                   ushort3 full [[dispatch_threads_per_threadgroup]],
                   uint index [[thread_index_in_threadgroup]]) {
  threadgroup_barrier(mem_flags::mem_none);
  bool ok = all(group * uint3(full) + in_group == at);
  ok = ok && index == in_group.x + size.x * (in_group.y + size.y * in_group.z);
  ok = ok && all(size == min(uint3(full), grid - group * uint3(full)));
  ok = ok && all(groups == (grid + uint3(full) - 1) / uint3(full));
  x[at.x + grid.x * (at.y + grid.y * at.z)] = uint4(at, ok);
}
"""


def line_of(text):
    """The line number that a message gives for a line of SOURCE."""
    return 2 + next(i for i, line in enumerate(SOURCE.split("\n"), 1) if text in line)


@pytest.mark.parametrize("size", [1, 2, 31, 32, 33, 64, 100, 1000, 1024])
def test_what_is_written_before_a_barrier_is_read_after_it(run, size):
    x = np.arange(size, dtype=np.uint32)
    run(SOURCE, "reverse", [x], size, threadgroup_memory=[-(-size // 4) * 16])
    assert np.array_equal(x, np.arange(size)[::-1])


def test_the_last_threadgroup_may_be_smaller(run):
    x = np.arange(150, dtype=np.uint32)
    run(SOURCE, "reverse", [x], 150, 64, threadgroup_memory=[256])
    want = [*range(63, -1, -1), *range(127, 63, -1), *range(149, 127, -1)]
    assert x.tolist() == want


def test_barriers_in_a_loop(run):
    x = np.arange(1024, dtype=np.uint32)
    run(SOURCE, "rotate_often", [x, np.uint32([300])], 1024)
    assert np.array_equal(x, np.roll(np.arange(1024), -300))


def test_a_barrier_inside_functions_and_templates_is_found(run):
    x = np.random.default_rng(0).integers(0, 9, 1024).astype(np.float32)
    out = np.zeros(1, np.float32)
    run(SOURCE, "tree_sum", [x, out], 1024)
    assert out[0] == x.sum()


def test_a_barrier_in_a_branch_that_all_threads_take(run):
    x = np.full(128, 99, np.uint32)
    run(SOURCE, "uniform_branch", [x], 128, 32)
    assert x.tolist() == [*range(31, -1, -1), *[99] * 32] * 2


def test_positions_in_three_dimensions_with_smaller_threadgroups_at_the_edges(run):
    grid, group = (7, 5, 3), (4, 2, 2)
    x = np.zeros((3, 5, 7, 4), np.uint32)
    run(SOURCE, "lid_3d", [x], grid, group)
    assert x[..., 3].all()
    z, y, column = np.indices((3, 5, 7))
    assert np.array_equal(x[..., :3], np.stack([column, y, z], axis=-1))


@pytest.mark.parametrize(
    ("kernel", "message", "line"),
    [
        ("return_before", "24 of 64 threads returned without it", "i >= 40"),
        ("in_a_branch", "56 of 64 threads returned without it", "i < 8) threadgroup_barrier"),
    ],
)
def test_a_barrier_that_not_all_threads_reach_is_refused(run, kernel, message, line):
    with pytest.raises(Exception, match=message) as error:
        run(SOURCE, kernel, [np.zeros(64, np.uint32)], 64)
    at = line_of(line) + (kernel == "return_before")
    assert f"program_source:{at}" in str(error.value)


def test_two_different_barriers_are_refused(run):
    with pytest.raises(Exception, match="wait at different barriers") as error:
        run(SOURCE, "two_barriers", [np.zeros(64, np.uint32)], 64)
    first = line_of("void two_barriers") + 2
    for line in (first, first + 2):
        assert f"at program_source:{line}:5" in str(error.value)
