"""What C++ has and MSL has not is refused, with the line; what MSL has passes."""

import pytest

WRONG = [
    ("double x;", "'double' is not supported in Metal"),
    ("struct A { virtual void f(); };", "virtual functions are not supported"),
    ("thread int* p = new int;", "'new' is not supported"),
    ("delete x;", "'delete' is not supported"),
    ("try { } catch (...) { }", "exceptions are not supported in Metal: 'try'"),
    ("throw 1;", "exceptions are not supported in Metal: 'throw'"),
    ("goto end; end: x[0] = 1;", "'goto' is not supported"),
    ("auto f = [](int a) { return a; };", "lambda expressions need language version 3.2"),
    ("auto f = [&] { return 1; };", "lambda expressions need language version 3.2"),
    ("dynamic_cast<thread int*>(x);", "'dynamic_cast' is not supported"),
    ("typeid(x);", "'typeid' is not supported"),
    (
        "float* p = x;",
        "pointer type must have explicit address space qualifier, as in 'device float",
    ),
    ("const float& r = x[0];", "reference type must have explicit address space qualifier"),
    ("x[0] = *(uint*)x;", "pointer type must have explicit address space qualifier"),
    ("static int count = 0;", "a static variable of a function must be in the constant address"),
    ("thread_local int count;", "'thread_local' is not supported"),
]


@pytest.mark.parametrize(("statement", "message"), WRONG)
def test_in_a_function(translate, statement, message):
    with pytest.raises(Exception, match=message) as error:
        translate(f"kernel void k(device float* x) {{\n\n  {statement}\n}}")
    assert str(error.value).startswith("t.metal:5: error: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("float scale = 1;", "program scope variable must reside in constant address space"),
        ("constexpr int n = 1;", "program scope variable must reside in constant address space"),
        ("inline float f(float* p) { return 1; }", "pointer type must have explicit address space"),
        ("inline int f(int n) { return n ? f(n - 1) : 0; }", "recursive function calls.*'f'"),
        (
            "inline int g(int n);\ninline int f(int n) { return g(n); }\n"
            "inline int g(int n) { return f(n); }",
            "recursive function calls",
        ),
        (
            "kernel void k(device float* x [[buffer(0)]] {}",
            "'\\(' is never closed|extraneous closing",
        ),
    ],
)
def test_at_program_scope(translate, text, message):
    with pytest.raises(Exception, match=message) as error:
        translate(text)
    assert "t.metal:" in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "struct A { A() = default; A(const thread A&) = delete; };",
        "constant float scale = 1; constexpr constant int n = 1;",
        "constant constexpr float t[2] = {};",
        "kernel void k(device float* x) { static constant float c = 1; x[0] = c; }",
        "inline void f(device const float* x, float constant& y, const device volatile uint* z) {}",
        "inline float f(float a, float b) { float c = a * b; return c & 1 ? a * c : b; }",
        "inline float sq(float x) { return x; } inline half sq(half x) { return sq(float(x)); }",
        "template <int n> struct F { static int f() { return n + F<n - 1>::f(); } };",
        "inline float exp(float2 x, int n) { return metal::exp(x.x) + exp(x.y); }",
        "kernel void k(device float* x) { uint4 v = {0}; int a[2] = {1, 2}; x[a[0]] = v[0]; }",
        '#define DOUBLE double\n// double new delete\nconstant int s = sizeof("double");',
        "bfloat f(bfloat x) { return x; }",
        "struct B : metal::bool_constant<true> {};",
    ],
)
def test_what_metal_accepts_passes(translate, text):
    translate(text)


def test_versions_bring_features(translate, compiled):
    with pytest.raises(Exception, match=r"'bfloat' needs language version 3\.1"):
        translate("inline bfloat f(bfloat x) { return x; }", version=(3, 0))
    compiled(
        "kernel void k(device float* x) { auto f = [](float a) { return 2 * a; }; *x = f(1); }",
        version=(3, 2),
    )
    compiled(
        "kernel void k(device int* x) { *x = __METAL_VERSION__; static_assert("
        '__METAL_VERSION__ == 310, ""); }',
        version=(3, 1),
    )


def test_the_compilers_own_errors_point_into_the_source_and_show_it(compiled):
    with pytest.raises(Exception, match="undeclared identifier 'nothing'") as error:
        compiled(
            "kernel void k(device float* x [[buffer(0)]],\n"
            "              constant float& c [[buffer(1)]]) {\n"
            "  device float* y = x;\n"
            "  y[0] = nothing * c;\n}"
        )
    text = str(error.value)
    assert "t.metal:6:10: error" in text
    assert "y[0] = nothing * c;" in text
    assert "library table" not in text


def test_constant_memory_cannot_be_written(compiled):
    with pytest.raises(Exception, match=r"t\.metal:3:.*const-qualified"):
        compiled("kernel void k(constant float& c [[buffer(0)]]) { c = 1; }")


def test_line_directives_are_followed(compiled):
    with pytest.raises(Exception, match=r"real\.metal:41:\d+: error: use of undeclared"):
        compiled('#line 40 "real.metal"\nkernel void k(device float* x) {\n x[0] = nothing;\n}')
    with pytest.raises(Exception, match=r"real\.metal:41: error: 'double'"):
        compiled('#line 40 "real.metal"\nkernel void k(device float* x) {\n double d;\n}')


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "kernel void k(device int* x) {\nthreadgroup atomic_float a; }",
            "atomic_float in threadgr",
        ),
        (
            "kernel void k(device int* x,\nthreadgroup atomic<float>* a) {}",
            "atomic_float in threadg",
        ),
        (
            "kernel void k(device int* x) {\nthreadgroup atomic_ulong a[2]; }",
            "atomic_ulong in threa",
        ),
        ("kernel void k(device int* x) {\natomic_int a; }", "not a thread's variable"),
        ("kernel void k(device int* x) {\nmetal::atomic<uint> a[2]; }", "not a thread's variable"),
        ("inline void f(\nvolatile thread atomic_int* a) {}", "must be in device or threadgroup"),
        ("inline void f(\nconstant atomic_int* a) {}", "must be in device or threadgroup memory"),
    ],
)
def test_atomics_where_metal_has_none(translate, code, message):
    with pytest.raises(Exception, match=message) as error:
        translate(code)
    assert str(error.value).startswith("t.metal:4: error: ")


def test_atomics_where_metal_has_them(compiled):
    compiled("""
struct Counts { atomic_uint n; atomic_float sum; };
using Count = atomic_int;
inline void add(volatile threadgroup atomic_uint* a, volatile device atomic<float>* b) {}
kernel void k(device Counts* c, device atomic_ulong* x) {
  threadgroup atomic_int a[3];
  threadgroup atomic<bool> b;
  device Count* y = (device Count*)x;
}""")
