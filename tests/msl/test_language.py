"""What Metal 3.1 lacks is found on its line, however it is written; what it has passes."""

import pytest

LACKING = {
    "a lambda": ("auto f = [](float a) { return a; };", "lambda expressions need"),
    "a capturing lambda": ("auto f = [&] { return x[0]; };", "lambda expressions need"),
    "goto": ("goto end; end: x[0] = 1;", "'goto' is not supported"),
    "try": ("try { x[0] = 1; } catch (int) {}", "exceptions are not supported"),
    "throw": ("throw 1;", "exceptions are not supported in Metal: 'throw'"),
    "double": ("double d = 1;", "'double' is not supported"),
    "a long double": ("auto d = 1.0L;", "'long double' is not supported"),
    "long long": ("long long n = 1;", "'long long' is not supported"),
    "new": ("thread int* n = new int;", "'new' is not supported"),
    "delete": ("delete x;", "'delete' is not supported"),
    "dynamic_cast": ("dynamic_cast<device int*>(x);", "'dynamic_cast' is not supported"),
    "typeid": ("typeid(x);", "'typeid' is not supported"),
    "thread_local": ("thread_local int n;", "'thread_local' is not supported"),
    "register": ("register int n = 1;", "'register' is not supported"),
    "a static variable": ("static int n = 0;", "must be in the constant address space"),
    "the standard library": ("std::size_t n = 0;", "no C++ standard library"),
    "assembly": ('asm("nop");', "inline assembly is not supported"),
}


@pytest.mark.parametrize("what", LACKING)
def test_in_a_kernel(rules, what):
    statement, message = LACKING[what]
    problems = rules(f"kernel void k(device float* x [[buffer(0)]]) {{\n{statement}\n}}\n")
    assert any(p.startswith("2: ") and message in p for p in problems), problems


AT_FILE_SCOPE = {
    "a derived struct": ("struct A { int n; };\nstruct B : A { int m; };", "derived classes"),
    "a derived class of Metal's": ("\nstruct B : metal::bool_constant<true> {};", "derived"),
    "a derived template": (
        "template <typename T> struct A {};\ntemplate <typename T> struct B : A<T> {};",
        "derived classes are not supported in Metal: 'B'",
    ),
    "a virtual function": ("struct A {\nvirtual int f() const { return 1; } };", "virtual"),
    "noexcept": ("\ninline float f(float a) noexcept { return a; }", "'noexcept' is not"),
    "variable arguments": ("\ninline int f(int n, ...) { return n; }", "variable arguments"),
    "mutable": ("struct A {\nmutable int n; };", "not in kernels: 'mutable'"),
}


@pytest.mark.parametrize("what", AT_FILE_SCOPE)
def test_at_file_scope(rules, what):
    text, message = AT_FILE_SCOPE[what]
    problems = rules(text + "\n")
    assert any(p.startswith("2: ") and message in p for p in problems), problems


@pytest.mark.parametrize(
    "text",
    [
        "template <typename... T> inline void f(T... values) {}",
        "enum class E : uint { a, b };",
        "struct A { int n; }; inline int f(A a, bool b) { return b ? a.n : 0; }",
        "template <typename T> struct A { T n; static constexpr constant int m = 2; };",
        "constant float table[2] = {1.0, 2.0f};",
        "// goto, double, new\nconstant int s = 1;",
    ],
)
def test_what_metal_has_passes(lint, text):
    assert lint(text + "\n") == []


UNQUALIFIED = {
    "a class": "Row* r = 0;",
    "a reference to a class": "thread const Row& q = *rows; const Row& r = q;",
    "a vector": "float4* v = 0;",
    "a vector by its template": "vec<float, 4>* v = 0;",
    "a constant pointer": "const Row* const r = 0;",
    "a cast": "x[0] = ((Row*)x)->a[0];",
    "an alias": "using F = float; F* f = 0;",
    "auto": "auto* f = x;",
    "an auto reference": "auto& f = x[0];",
    "decltype": "decltype(x[0] + 1)* f = 0;",
    "a pointer to a pointer": "device float** f = 0;",
    "an rvalue reference": "float&& f = 1.0f;",
    "a pointer to a member": "device float* Row::*m = 0;",
    "a scalar": "float* f = 0;",
}
ROW = "struct Row { device float* a; };\n"
KERNEL = "kernel void k(device float* x [[buffer(0)]], device const Row* rows [[buffer(1)]]) {"


@pytest.mark.parametrize("what", UNQUALIFIED)
def test_a_pointer_without_an_address_space(rules, what):
    problems = rules(f"{ROW}{KERNEL}\n{UNQUALIFIED[what]}\n}}\n")
    wanted = ("without an address space", "explicit address space", "pointers to members")
    own = [p for p in problems if "read as" not in p]
    assert any(p.startswith("3: ") and any(w in p for w in wanted) for p in own), problems


def test_a_template_parameter_without_an_address_space(rules):
    problems = rules("template <typename T>\ninline T first(T* p) { return p[0]; }\n")
    assert any(p.startswith("2: pointer without an address space") for p in problems), problems


def test_pointers_with_address_spaces_and_products_pass(lint):
    text = f"""{ROW}
template <typename T> inline T twice(thread T& t, constant T* c, T device* d) {{
  return t * c[0] * d[0];
}}
inline float sum(threadgroup const float4* v, float n, float m) {{ return v[0].x + n * m; }}
{KERNEL}
  device float4* wide = (device float4*)rows->a;
  device const Row* const row = rows;
  thread auto& alias = x;
  uint n = sizeof(Row) * 2 & 6;
  alias[n] = wide[0].x * row->a[0];
}}
"""
    assert lint(text) == []
