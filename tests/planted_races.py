"""Kernels with one data race each, and their correct twins: for the tests of the race detector.

Each kernel is written twice from one text: lines that end in `// racy` are only in the racy one,
those that end in `// right` only in the correct one. `// one` and `// other` mark the two accesses.
"""

from __future__ import annotations

import re

HEADER = "#include <metal_stdlib>\nusing namespace metal;\n"
N = 64  # threads of a threadgroup: two simdgroups
ARGUMENTS = """device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    device atomic_uint* count [[buffer(2)]], uint i [[thread_position_in_threadgroup]],
    uint g [[threadgroup_position_in_grid]], uint at [[thread_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]]"""

# name: (memory that the report names, text of the kernel)
PLANTED = {
    "missing_barrier_after_threadgroup_store": (
        "threadgroup memory 's'",
        """
        threadgroup float s[64];
        s[i] = x[at];  // one
        threadgroup_barrier(mem_flags::mem_threadgroup);  // right
        y[at] = s[63 - i];  // other
        """,
    ),
    "barrier_for_the_wrong_memory": (
        "threadgroup memory 's'",
        """
        threadgroup float s[64];
        s[i] = x[at];  // one
        threadgroup_barrier(mem_flags::mem_device);  // racy
        threadgroup_barrier(mem_flags::mem_threadgroup);  // right
        y[at] = s[63 - i];  // other
        """,
    ),
    "barrier_for_no_memory": (
        "threadgroup memory 's'",
        """
        threadgroup float s[64];
        s[i] = x[at];  // one
        threadgroup_barrier(mem_flags::mem_none);  // racy
        threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);  // right
        y[at] = s[63 - i];  // other
        """,
    ),
    "device_memory_behind_a_threadgroup_barrier": (
        "buffer 'y'",
        """
        y[at] = x[at];  // one
        threadgroup_barrier(mem_flags::mem_threadgroup);  // racy
        threadgroup_barrier(mem_flags::mem_device);  // right
        x[at] = y[g * 64 + 63 - i];  // other
        """,
    ),
    "another_threadgroups_result": (
        "buffer 'y'",
        """
        y[at] = 1;  // one
        threadgroup_barrier(mem_flags::mem_device);
        x[at] = y[(at + 64) % 256];  // racy other
        x[at] = y[g * 64 + (i + 1) % 64];  // right
        """,
    ),
    "bfloat_neighbours_as_one_word": (
        "buffer 'y'",
        """
        device ushort* halves = (device ushort*)y;  // right
        halves[at] = ushort(at);  // right
        device uint* words = (device uint*)y;  // racy
        uint shift = at % 2 * 16;  // racy
        words[at / 2] = (words[at / 2] & ~(0xffffu << shift)) | at << shift;  // racy one other
        """,
    ),
    "bytes_beside_a_word": (
        "buffer 'y'",
        """
        device uchar* bytes = (device uchar*)y + g * 256;
        if (i == 0) *(device uint*)bytes = 0;  // one
        else bytes[i + 2] = 1;  // racy other
        else bytes[i + 3] = 1;  // right
        """,
    ),
    "reduction_tree_without_its_barrier": (
        "threadgroup memory 's'",
        """
        threadgroup float s[64];
        s[i] = x[at];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint step = 32; step > 0; step /= 2) {
          if (i < step) s[i] += s[i + step];  // one other
          threadgroup_barrier(mem_flags::mem_threadgroup);  // right
        }
        if (i == 0) y[g] = s[0];
        """,
    ),
    "double_buffer_without_its_barrier": (
        "threadgroup memory 's'",
        """
        threadgroup float s[2][64];
        for (uint k = 0; k < 4; ++k) {
          s[k % 2][i] = x[at] * k;  // one
          threadgroup_barrier(mem_flags::mem_threadgroup);  // right
          y[at] += s[k % 2][63 - i];  // other
        }
        """,
    ),
    "scratch_used_again_too_early": (
        "threadgroup memory 's'",
        """
        threadgroup float s[64];
        for (uint k = 0; k < 3; ++k) {
          s[i] = x[at] * k;  // one
          threadgroup_barrier(mem_flags::mem_threadgroup);
          y[at] += s[63 - i];  // other
          threadgroup_barrier(mem_flags::mem_threadgroup);  // right
        }
        """,
    ),
    "lanes_share_without_a_simdgroup_barrier": (
        "threadgroup memory 's'",
        """
        threadgroup float s[64];
        s[i] = x[at];  // one
        simdgroup_barrier(mem_flags::mem_threadgroup);  // right
        y[at] = s[simd * 32 + 31 - lane];  // other
        """,
    ),
    "simdgroup_barrier_between_simdgroups": (
        "threadgroup memory 's'",
        """
        threadgroup float s[64];
        s[i] = x[at];  // one
        simdgroup_barrier(mem_flags::mem_threadgroup);  // racy
        threadgroup_barrier(mem_flags::mem_threadgroup);  // right
        y[at] = s[(i + 32) % 64];  // other
        """,
    ),
    "simdgroup_barrier_of_half_the_lanes": (
        "threadgroup memory 's'",
        """
        threadgroup float s[64];
        s[i] = x[at];  // one
        if (lane < 16) simdgroup_barrier(mem_flags::mem_threadgroup);  // racy
        simdgroup_barrier(mem_flags::mem_threadgroup);  // right
        threadgroup_barrier(mem_flags::mem_none);
        y[at] = s[simd * 32 + (lane + 16) % 32];  // other
        """,
    ),
    "a_simdgroup_operation_is_no_barrier": (
        "threadgroup memory 's'",
        """
        threadgroup float s[64];
        s[i] = x[at];  // one
        float sum = simd_sum(x[at]);
        simdgroup_barrier(mem_flags::mem_threadgroup);  // right
        y[at] = sum + s[simd * 32 + 31 - lane];  // other
        """,
    ),
    "plain_read_of_an_atomic": (
        "buffer 'count'",
        """
        atomic_fetch_add_explicit(count, 1u, memory_order_relaxed);  // one
        uint now = *(device uint*)count;  // racy other
        uint now = atomic_load_explicit(count, memory_order_relaxed);  // right
        y[at] = now > 0;
        """,
    ),
    "plain_write_beside_atomics": (
        "buffer 'count'",
        """
        if (at == 0) *(device uint*)count = 5;  // racy one
        if (at == 0) atomic_store_explicit(count, 5u, memory_order_relaxed);  // right
        if (at != 0) atomic_fetch_max_explicit(count, at, memory_order_relaxed);  // other
        """,
    ),
    "threadgroup_counter_read_without_a_barrier": (
        "threadgroup memory 'total'",
        """
        threadgroup uint total;
        if (i == 0) total = 0;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        atomic_fetch_add_explicit((threadgroup atomic_uint*)&total, 1u, memory_order_relaxed);// one
        threadgroup_barrier(mem_flags::mem_threadgroup);  // right
        y[at] = total;  // other
        """,
    ),
    "last_arriver_with_a_relaxed_counter": (
        "buffer 'y'",
        """
        if (i == 0) {
          y[g] = 1;  // one
          uint before = atomic_fetch_add_explicit(count, 1u, memory_order_relaxed);
          if (before == 3) x[0] = y[0] + y[1] + y[2] + y[3];  // racy other
          if (before == 3) x[0] = 1;  // right
        }
        """,
    ),
    "everybody_writes_the_same": (
        "buffer 'count'",
        """
        *(device uint*)count = 1;  // racy one other
        atomic_store_explicit(count, 1u, memory_order_relaxed);  // right
        """,
    ),
    "threads_shift_in_place": (
        "buffer 'x'",
        """
        x[at] = x[(at + 1) % 256];  // racy one other
        y[at] = x[(at + 1) % 256];  // right
        """,
    ),
    "chunks_overlap_by_one": (
        "buffer 'y'",
        """
        uint end = i == 0 ? 65 : 64;  // racy
        uint end = 64;  // right
        for (uint k = i; k < end; k += 64) y[(g * 64 + k) % 256] = k;  // one
        if (i == 0) y[(g * 64 + 64) % 256] = 0;  // racy other
        """,
    ),
    "wide_store_over_a_neighbour": (
        "buffer 'y'",
        """
        if (i == 0) *(device float4*)(y + g * 64) = float4(1);  // one
        if (i == 3) y[g * 64 + i] = 2;  // racy other
        if (i == 4) y[g * 64 + i] = 2;  // right
        """,
    ),
    "flag_in_device_memory": (
        "buffer 'x'",
        """
        if (i == 0) x[g] = 1;  // one
        simdgroup_barrier(mem_flags::mem_device);  // racy
        threadgroup_barrier(mem_flags::mem_device);  // right
        y[at] = x[g];  // other
        """,
    ),
}
BOTH_IN_ONE_PLACE = {"chunks_overlap_by_one"}  # whichever of the writes is found first


def variant(text: str, which: str) -> str:
    """The kernel with only the lines of one of the two."""
    left_out = {"racy": "right", "right": "racy"}[which]
    return "\n".join(line for line in text.splitlines() if not re.search(rf"//.*{left_out}", line))


def source_of(which: str) -> str:
    kernels = (
        f"kernel void {name}({ARGUMENTS}) {{{variant(text, which)}}}"
        for name, (_, text) in PLANTED.items()
    )
    return HEADER + "\n".join(kernels)


def lines_of(source: str, kernel: str, mark: str) -> set[str]:
    inside = False
    found = set()
    for number, line in enumerate(source.splitlines(), 1):
        if line.startswith("kernel void "):
            inside = line.startswith(f"kernel void {kernel}(")
        if inside and re.search(rf"//.*\b{mark}\b", line):
            found.add(f"program_source:{number}")
    return found
