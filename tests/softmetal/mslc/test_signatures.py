"""What mslc reads from the declarations of kernels."""

import pytest


def one_kernel(translation):
    (kernel,) = translation.kernels
    return kernel


def bindings(kernel):
    return [(p.name, p.kind.removeprefix("SM_").lower(), p.index) for p in kernel.parameters]


def test_every_kind_of_parameter(translate):
    kernel = one_kernel(
        translate("""
struct Args { float a; };
kernel void k(device const float* const x [[buffer(3)]], constant Args& args [[ buffer(4) ]],
              device void *raw [[buffer(0x5)]], threadgroup half *shared [[threadgroup(1)]],
              const uint3 at [[thread_position_in_grid]], ushort lane [[thread_index_in_simdgroup]],
              uint width [[threads_per_simdgroup]], uint w2 [[thread_execution_width]]) {}
""")
    )
    assert bindings(kernel) == [
        ("x", "buffer", "3"),
        ("args", "buffer", "4"),
        ("raw", "buffer", "0x5"),
        ("shared", "threadgroup_mem", "1"),
        ("at", "thread_position_in_grid", "-1"),
        ("lane", "thread_index_in_simdgroup", "-1"),
        ("width", "threads_per_simdgroup", "-1"),
        ("w2", "threads_per_simdgroup", "-1"),
    ]
    assert [p.is_constant for p in kernel.parameters] == [False, True] + [False] * 6


def test_buffers_without_an_index_take_the_free_ones_in_order(translate):
    kernel = one_kernel(
        translate(
            "kernel void k(device int* a, device int* b [[buffer(0)]], constant int& c,"
            " threadgroup int* d, threadgroup int* e) {}"
        )
    )
    assert [p.index for p in kernel.parameters] == ["1", "0", "2", "0", "1"]


@pytest.mark.parametrize(
    "text",
    [
        "kernel void k /* a ) { */ (device float* x /* , int y */ [[buffer(0)]]) {} // )",
        'kernel void k(device float* x [[buffer(0)]]) { /* "{" */ x[0] = \'{\' + sizeof("}"); }',
        "kernel\nvoid\nk\n(\ndevice\nfloat*\nx\n[[\nbuffer\n(\n0\n)\n]]\n)\n{\n}",
        "[[max_total_threads_per_threadgroup(64)]] kernel void k(device float* x [[buffer(0)]]) {}",
        "kernel [[max_total_threads_per_threadgroup(64)]] void k(device float* x [[buffer(0)]]) {}",
        "[[kernel]] void k(device float* x [[buffer(0), maybe_unused]]) {}",
        "#define NAME k\n#define SLOT(n) [[buffer(n)]]\n"
        "kernel void NAME(device float* x SLOT(0)) {}",
        "static inline int f(int a = (1 < 2), int b = 3) { return a < b ? a : b; }\n"
        "kernel void k(device float* x [[buffer(0)]]) { if (x[0] < 1 && 2 > x[1]) x[0] = f(); }",
        "struct S { int x : 3; S() : x(1) {} bool operator<(S o) const { return x < o.x; }\n"
        " private: int operator()(int y) const { return y; } };\n"
        "kernel void k(device float* x [[buffer(0)]]) { S s; }",
        "enum class E : uint { a, b }; constant float table[] = {1, 2, 3};\n"
        "kernel void k(device float* x [[buffer(0)]]) { x[0] = table[1]; }",
        'extern "C" { int g(int); } namespace n { inline namespace m { } }\n'
        "kernel void k(device float* x [[buffer(0)]]) {}",
        "template <int N, typename T = enable_if_t<(N > 3), int>> T f() { return N; }\n"
        "template <int N> enable_if_t<N < 8> g() {}\n"
        "kernel void k(device float* x [[buffer(0)]]) { x[0] = f<4>(); g<2>(); }",
        "union U { float f; uint u; }; typedef struct { int a; } T; using V = vec<float, 2>;\n"
        "auto f(int x) -> int { return x; }\n"
        "kernel void k(device float* x [[buffer(0)]]) {}",
    ],
)
def test_oddities_do_not_hide_the_kernel(compiled, text):
    translation = compiled(text)
    kernel = one_kernel(translation)
    assert kernel.name == "k"
    assert bindings(kernel) == [("x", "buffer", "0")]
    limit = "64" if "(64)" in text else "SM_MAX_THREADS"
    assert f"softmetal_threads_of_k() {{ return {limit}; }}" in translation.cpp


def test_nested_namespaces_and_methods_are_named_in_full(translate):
    kernel = one_kernel(
        translate("namespace a { namespace b { kernel void k(device float* x) {} } }")
    )
    assert kernel.name == "k"
    assert kernel.expression == "::a::b::k"


@pytest.mark.parametrize(
    ("body", "waits"),
    [
        ("x[0] = 1;", False),
        ("threadgroup_barrier(mem_flags::mem_none);", True),
        ("x[0] = simd_sum(x[0]);", True),
        ("x[0] = quad_max(x[0]);", True),
        ("helper(x);", True),
        ("harmless(x);", False),
        ("Functor f; f(x);", True),
        ("Alias f; f(x);", True),
    ],
)
def test_only_kernels_that_can_reach_a_wait_need_fibers(translate, body, waits):
    kernel = one_kernel(
        translate(f"""
inline void deep(device float* x) {{ x[0] = simd_shuffle_down(x[0], 1); }}
inline void helper(device float* x) {{ deep(x); }}
inline void harmless(device float* x) {{ x[0] = 2; }}
struct Functor {{ void operator()(device float* x) const {{ deep(x); }} }};
using Alias = Functor;
kernel void k(device float* x) {{ {body} }}""")
    )
    assert kernel.waits == waits


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        (
            "kernel void k(\n  device float* x [[buffer(31)]]) {}",
            "index 31 of 'x' is out of range",
            4,
        ),
        (
            "kernel void k(device int* x [[buffer(1)]], device int* y [[buffer(1)]]) {}",
            "'x' and 'y' have the same index 1",
            3,
        ),
        ("kernel void k(\n\n float x) {}", "'x' has neither an address space nor an attribute", 5),
        (
            "kernel void k(device float* x [[thread_position_in_grid]]) {}",
            "'x' must be an integer or a vector of integers",
            3,
        ),
        (
            "kernel void k(threadgroup float* x [[buffer(0)]]) {}",
            "'x' must be a pointer or reference to device or constant memory",
            3,
        ),
        (
            "kernel void k(device float* x,\n  uint i [[stage_in]]) {}",
            r"\[\[stage_in\]\] of 'i'",
            4,
        ),
        (
            "kernel void k(\n uint i [[thread_position_in_grid, threads_per_grid]]) {}",
            r"'k': parameter 'i' has two attributes.*\[\[threads_per_grid\]\]",
            4,
        ),
        (
            "kernel void k(uint i [[thread_position_in_grid]],\n"
            " uint j [[thread_position_in_grid]]) {}",
            r"'k': two parameters have the attribute \[\[thread_position_in_grid\]\]",
            4,
        ),
        ("kernel int k(device float* x) { return 1; }", "'k' must return void", 3),
        (
            'template [[host_name("q")]] kernel void nowhere<float>(device float*);',
            r'\[\[host_name\("q"\)\]\]: there is no kernel named nowhere',
            3,
        ),
        (
            '[[host_name("k")]] kernel void a(device int* x) {}\nkernel void k(device int* x) {}',
            "two kernels have the name 'k'",
            None,
        ),
    ],
)
def test_errors_name_kernel_parameter_and_line(translate, text, message, line):
    with pytest.raises(Exception, match=message) as error:
        translate(text)
    if line:
        assert str(error.value).startswith(f"t.metal:{line}: error: ")


@pytest.mark.parametrize(
    ("parameters", "message", "line"),
    [
        ("device int* x,\n device int* y [[buffer(-1)]]", "index - 1 of 'y' is out of range", 5),
        ("device int* x [[buffer(30+1)]]", r"index 30 \+ 1 of 'x' is out of range", 4),
        ("device int* x [[buffer(0x1f)]]", "index 0x1f of 'x' is out of range", 4),
        ("threadgroup int* x [[threadgroup(two + 29)]]", r"two \+ 29 of 'x' is out of range", 4),
        (
            "device int* x [[buffer(1 + 1)]], device int* y [[buffer(two)]]",
            r"'x' and 'y' have the same index 1 \+ 1 = two",
            4,
        ),
        (
            "device int* x [[buffer(0x2)]], device int* y [[buffer(2)]]",
            "'x' and 'y' have the same index 0x2 = 2",
            4,
        ),
    ],
)
def test_indices_that_only_the_compiler_can_evaluate(compiled, parameters, message, line):
    with pytest.raises(Exception, match=f"kernel 'k': .*{message}") as error:
        compiled(f"constant int two = 2; kernel void k(\n{parameters}) {{}}")
    assert str(error.value).startswith(f"t.metal:{line}:")


@pytest.mark.parametrize("kind", ["thread_position_in_grid", "threads_per_threadgroup"])
@pytest.mark.parametrize("type_name", ["ushort", "uint", "ushort2", "const uint3", "vec<uint, 2>"])
def test_types_of_positions(compiled, type_name, kind):
    compiled(f"kernel void k(device int* x, {type_name} i [[{kind}]]) {{}}")


@pytest.mark.parametrize(
    ("type_name", "kind", "allowed"),
    [
        ("int", "thread_position_in_grid", "ushort or uint, or a vector of two or three"),
        ("float", "thread_position_in_grid", "ushort or uint, or a vector of two or three"),
        ("ulong", "threads_per_grid", "ushort or uint, or a vector of two or three"),
        ("uint4", "threads_per_threadgroup", "ushort or uint, or a vector of two or three"),
        ("Alias", "threadgroup_position_in_grid", "ushort or uint, or a vector of two or three"),
        ("uint2", "thread_index_in_threadgroup", 'ushort or uint"'),
        ("short", "thread_index_in_simdgroup", 'ushort or uint"'),
    ],
)
def test_other_types_of_positions_are_refused(compiled, type_name, kind, allowed):
    with pytest.raises(
        Exception, match=f"kernel 'k': parameter 'i', a {kind}, .*{allowed}"
    ) as error:
        compiled(
            f"using Alias = int2; kernel void k(device int* x,\n {type_name} i [[{kind}]]) {{}}"
        )
    assert str(error.value).startswith("t.metal:4:")


def test_indices_may_be_expressions(compiled):
    compiled("""
constant int two = 2;
kernel void k(device int* x [[buffer(two)]], device int* y [[buffer(two + 28)]],
              device int* z, threadgroup int* t [[threadgroup(two)]]) { *x = *y + *z + *t; }""")


def test_overloads_by_address_space_become_one(compiled):
    compiled("""
inline float first(device const float* x) { return x[0]; }
inline float first(threadgroup const float* x) { return x[0]; }
inline float first(constant float* x) { return x[0]; }
struct S { float v; float get() const device { return v; } float get() const thread { return v; } };
kernel void k(device float* x, constant float* c) { x[1] = first(x) + first(c); }""")


def test_overloads_by_address_space_that_differ_are_refused(translate):
    with pytest.raises(Exception, match=r"must have the same body.*the other one is at t\.metal:3"):
        translate(
            "inline int f(device int* x) { return 1; }\n"
            "inline int f(threadgroup int* x) { return 2; }"
        )


def test_a_real_redefinition_is_still_one(compiled):
    with pytest.raises(Exception, match=r"t\.metal:4:12: error: redefinition of 'f'"):
        compiled("inline int f(int x) { return 1; }\ninline int f(int x) { return 1; }")


def test_classes_with_a_variant_for_each_address_space(compiled):
    """As in MLX: constructors, conversions and methods; specialisations are scopes of their own."""
    compiled("""
template <typename T> struct Complex {
  T re, im;
  constexpr Complex(T x) thread : re(x), im(0) {}
  constexpr Complex(T x) device : re(x), im(0) {}
  constexpr Complex(T x) constant : re(x), im(0) {}
  constexpr operator T() const thread { return re; }
  constexpr operator T() const constant { return re; }
};
template <int n, bool b> struct Loop { void next(int k) thread { rest = k * n; } int rest; };
template <bool b> struct Loop<1, b> { void next(int k) thread { rest = k; } int rest; };
template <typename T> struct Limits { static constexpr constant T lowest = T(-1); };
template <> struct Limits<bfloat> {
  static constexpr constant bfloat lowest = metal::numeric_limits<bfloat>::lowest();
};
constant Complex<float> one = Complex<float>(1.0);
kernel void k(device float* x, device bfloat* y) {
  Loop<1, true> loop; loop.next(2); Complex<float> c(2.0);
  const thread bfloat& low = Limits<bfloat>::lowest;
  x[0] = float(c) + float(one) + loop.rest; y[0] = low;
}""")
