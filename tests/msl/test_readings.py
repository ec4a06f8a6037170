"""Mistakes that only another compiler finds: read as C++ for OpenCL, and as plain C++14."""

import functools

import pytest
from msl_lint.readings import as_cxx14, as_opencl


@pytest.fixture
def opencl(lint):
    return functools.partial(lint, readings=(as_opencl,))


@pytest.fixture
def cxx14(lint):
    return functools.partial(lint, readings=(as_cxx14,))


def kernel(statement):
    return f"""inline float first(threadgroup const float* s) {{ return s[0]; }}
kernel void k(device float* x [[buffer(0)]], constant float* c [[buffer(1)]]) {{
{statement}
}}
"""


ADDRESS_SPACES = {
    "device for threadgroup": "x[0] = first(x);",
    "constant for device": "device const float* d = c; x[0] = d[0];",
    "threadgroup for device": "threadgroup float s[4]; device float* d = s; x[0] = d[0];",
    "private for device": "float t[2]; device float* d = t; x[0] = d[0];",
}


@pytest.mark.parametrize("what", ADDRESS_SPACES)
def test_address_spaces(opencl, what):
    problems = opencl(kernel(ADDRESS_SPACES[what]))
    assert any(p.startswith("3: read as OpenCL: ") for p in problems), problems


NEWER_CXX = {
    "if constexpr": "if constexpr (sizeof(float) == 4) x[0] = 1;",
    "a structured binding": "struct P { int a, b; }; auto [a, b] = P{1, 2}; x[a] = b;",
    "an initialiser in if": "if (int n = 1; n) x[0] = 1;",
    "designated initialisers": "struct P { int a, b; }; P p = {.a = 1, .b = 2}; x[p.a] = p.b;",
    "a variable-length array": "int n = int(c[0]); float a[n]; a[0] = 1; x[0] = a[0];",
    "a statement expression": "x[0] = ({ float a = 1; a; });",
    "nothing between ?:": "x[0] = c[0] ?: 1.0f;",
    "one-argument static_assert": "static_assert(sizeof(float) == 4);",
}


@pytest.mark.parametrize("what", NEWER_CXX)
def test_newer_or_extended_cxx(cxx14, what):
    problems = cxx14(kernel(NEWER_CXX[what]))
    assert any(p.startswith("3: read as C++14: ") for p in problems), problems


AT_FILE_SCOPE = {
    "nested namespaces": "namespace a::b { inline int f() { return 1; } }",
    "a fold": "template <typename... T> int f(T... n) { return (n + ...); }",
    "an inline variable": "struct A { static inline int n = 1; };",
    "a zero-length array": "struct A { int n[0]; };",
}


@pytest.mark.parametrize("what", AT_FILE_SCOPE)
def test_newer_or_extended_cxx_at_file_scope(cxx14, what):
    problems = cxx14(AT_FILE_SCOPE[what] + "\n")
    assert any(p.startswith("1: read as C++14: ") for p in problems), problems


def test_a_mistake_in_a_template_is_found_through_its_instance(cxx14):
    text = """template <typename T> kernel void k(device T* x [[buffer(0)]]) {
  x[0] = undeclared(x[0]);
}
template [[host_name("k_float")]] kernel void k<float>(device float*);
"""
    assert any(p.startswith("2: read as C++14: ") for p in cxx14(text))


def test_what_even_mslc_refuses_is_told_with_its_line(cxx14):
    problems = cxx14("\nint n = 1;\n")
    assert any(p.startswith("2: read by mslc: program scope variable") for p in problems)


def test_everything_that_kernels_use_passes(lint):
    text = """struct Row { device float* data; ulong length; };
constant bool square [[function_constant(0)]];
template <typename T> T twice(T x) { return 2 * x; }
inline float sum(threadgroup const float* s, uint n) {
  float a = 0;
  for (uint i = 0; i < n; ++i) a = fma(s[i], 1.0, a);
  return a;
}
kernel void k(device const Row* rows [[buffer(0)]], constant float& c [[buffer(1)]],
              uint i [[thread_index_in_threadgroup]]) {
  threadgroup float shared[32];
  Row row = rows[0];
  device float4* wide = (device float4*)row.data;
  float4 v = wide[i] * c + float4(1, 2, float2(3, 4));
  shared[i] = simd_sum(twice(v.x)) + (square ? precise::sqrt(v.y) : max(v.z, 1.0));
  threadgroup_barrier(mem_flags::mem_threadgroup);
  row.data[i] = sum(shared, 32) + as_type<float>(as_type<uint>(v.w) & 0x7fffffffu);
}
template <typename T> kernel void t(device T* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  x[i] = twice(x[i]);
}
template [[host_name("t_half")]] kernel void t<half>(device half*, uint);
template [[host_name("t_float")]] [[kernel]] decltype(t<float>) t<float>;
"""
    assert lint(text) == []
