"""The second reading finds address spaces that are mixed up."""

import pytest

CLEAN = """#include <metal_stdlib>
using namespace metal;
struct Row { device float* data; ulong length; };
constant bool square [[function_constant(0)]];
template <typename T> T twice(T x) { return 2 * x; }
inline float sum(threadgroup const float* s, uint n) {
  float a = 0;
  for (uint i = 0; i < n; ++i) a = fma(s[i], 1.0, a);
  return a;
}
kernel void k(device const Row* rows [[buffer(0)]], constant float& c [[buffer(1)]],
              device atomic_uint* count [[buffer(2)]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup float shared[32];
  Row row = rows[0];
  device float4* wide = (device float4*)row.data;
  float4 v = wide[i] * c + float4(1, 2, float2(3, 4));
  shared[i] = simd_sum(twice(v.x)) + (square ? precise::sqrt(v.y) : max(v.z, 1.0));
  threadgroup_barrier(mem_flags::mem_threadgroup);
  atomic_fetch_add_explicit(count, 1u, memory_order_relaxed);
  row.data[i] = sum(shared, 32);
}
template <typename T> kernel void t(device T* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  x[i] = twice(x[i]);
}
template [[host_name("t_half")]] kernel void t<half>(device half*, uint);
"""

PRELUDE = """#include <metal_stdlib>
using namespace metal;
struct Ref { device float* p; };
inline float sum(threadgroup float* s) { return s[0]; }
inline void increment(thread float& v) { v += 1; }
"""

MISTAKES = {
    "a device pointer passed as a threadgroup pointer": "x[i] = sum(x);",
    "a constant pointer assigned to a device pointer": "device const float* q = c; x[i] = q[i];",
    "a threadgroup array assigned to a device pointer": (
        "threadgroup float s[32]; device float* q = s; x[i] = q[0];"
    ),
    "a private array stored in a device member": "float t[4]; Ref r; r.p = t; x[i] = r.p[0];",
    "a write to constant memory": "c[0] = x[0];",
    "an atomic object in private memory": (
        "atomic_uint a; atomic_fetch_add_explicit(&a, 1u, memory_order_relaxed);"
    ),
    "a device element bound to a thread reference": "increment(x[i]);",
}


def check(text):
    from mslc.compile import Options
    from mslc.opencl_check import check_address_spaces

    return check_address_spaces(text.encode(), Options(name="t.metal"))


def test_correct_source_is_clean():
    assert check(CLEAN) == ""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found_on_its_line(mistake):
    text = f"""kernel void k(device float* x [[buffer(0)]], constant float* c [[buffer(1)]],
              uint i [[thread_position_in_grid]]) {{
  {MISTAKES[mistake]}
}}
"""
    diagnostics = check(PRELUDE + text)
    assert "t.metal:8:" in diagnostics, diagnostics
    assert "error:" in diagnostics


def test_a_threadgroup_variable_outside_of_a_kernel_is_found():
    text = """inline float helper(float v) {
  threadgroup float s[4];
  return s[0] = v;
}
"""
    assert "t.metal:7:" in check(PRELUDE + text)


def test_a_mistake_in_a_template_is_found_through_its_instance():
    text = """template <typename T> kernel void k(device T* x [[buffer(0)]]) { x[0] = sum(x); }
template [[host_name("k_float")]] kernel void k<float>(device float*);
"""
    assert "no matching function for call to 'sum'" in check(PRELUDE + text)
