"""Our own rules: no recursion, no calls through pointers, no waiting between threadgroups, and
nothing contracted."""

import pytest


def kernel(statement):
    return f"""kernel void k(device float* x [[buffer(0)]], device atomic_uint* n [[buffer(1)]],
              uint i [[thread_position_in_grid]]) {{
{statement}
}}
"""


WAITING = {
    "a ticket in a condition": (
        "if (atomic_fetch_add_explicit(n, 1u, memory_order_relaxed) == 7) x[0] = 1;",
        "the result of atomic_fetch_add_explicit() is used",
    ),
    "a ticket in a variable": (
        "uint ticket = atomic_fetch_sub_explicit(n, 1u, memory_order_relaxed); x[0] = ticket;",
        "the result of atomic_fetch_sub_explicit() is used",
    ),
    "a ticket as an index": (
        "x[metal::atomic_fetch_add_explicit(n, 1u, memory_order_relaxed)] = 1;",
        "the result of atomic_fetch_add_explicit() is used",
    ),
    "a lock": (
        "while (atomic_exchange_explicit(n, 1u, memory_order_relaxed)) { x[0] = 1; }",
        "the result of atomic_exchange_explicit() is used",
    ),
    "compare and swap": (
        "uint e = 0; bool b = atomic_compare_exchange_weak_explicit(n, &e, 1u, "
        "memory_order_relaxed, memory_order_relaxed); x[0] = b;",
        "the result of atomic_compare_exchange_weak_explicit() is used",
    ),
    "a loop without a body": (
        "while (atomic_load_explicit(n, memory_order_relaxed) == 0);",
        "'while' without a body",
    ),
    "a loop without a body on plain memory": ("while (x[0] == 0) {}", "'while' without a body"),
    "an empty for": ("for (; x[0] == 0;) {}", "'for' without a body"),
    "a condition with a load": (
        "while (atomic_load_explicit(n, memory_order_relaxed) == 0) { x[0] = 1; }",
        "depends on an atomic operation",
    ),
    "do while": (
        "do { x[0] += 1; } while (atomic_load_explicit(n, memory_order_relaxed) == 0);",
        "depends on an atomic operation",
    ),
    "for": (
        "for (uint k = 0; k < atomic_load_explicit(n, memory_order_relaxed); ++k) x[k] = 1;",
        "depends on an atomic operation",
    ),
    "a break": (
        "while (true) { if (atomic_load_explicit(n, memory_order_relaxed)) break; x[0] = 1; }",
        "depends on an atomic operation",
    ),
    "through a variable": (
        "uint a = 0; while (a == 0) { a = atomic_load_explicit(n, memory_order_relaxed); }",
        "depends on an atomic operation",
    ),
    "through two variables": (
        "bool go = true; while (go) { uint a = atomic_load_explicit(n, memory_order_relaxed); "
        "go = a == 0; }",
        "depends on an atomic operation",
    ),
    "volatile": ("volatile device float* v = x; x[0] = v[0];", "'volatile'"),
}


@pytest.mark.parametrize("what", WAITING)
def test_waiting_between_threadgroups(rules, what):
    statement, message = WAITING[what]
    problems = rules(kernel(statement))
    assert any(p.startswith("3: ") and message in p for p in problems), problems


def test_atomics_that_order_nothing_pass(lint):
    statements = """  atomic_fetch_add_explicit(n, 1u, memory_order_relaxed);
  if (i == 0) atomic_fetch_max_explicit(n, 2u, memory_order_relaxed);
  for (uint k = 0; k < 4; ++k) metal::atomic_fetch_or_explicit(n, k, memory_order_relaxed);
  atomic_store_explicit(n, 3u, memory_order_relaxed);
  if (atomic_load_explicit(n, memory_order_relaxed) == 0) return;
  for (uint k = 0; k < 4; ++k) { x[k] = 1; }
  do { x[0] += 1; } while (x[0] < 3);"""
    assert lint(kernel(statements)) == []


RECURSION = {
    "direct": "inline int f(int n) { return n ? f(n - 1) : 0; }",
    "mutual": (
        "inline int g(int n); inline int f(int n) { return g(n); } "
        "inline int g(int n) { return f(n); }"
    ),
    "of one overload": (
        "inline float f(float a) { return a; } inline int f(int n) { return n ? f(n - 1) : 0; }"
    ),
    "of a template": (
        "template <typename T> T f(T n) { return n ? f(T(n - 1)) : T(0); } "
        "template int f<int>(int);"
    ),
    "of a member": "struct A { int f(int n) const { return n ? f(n - 1) : 0; } };",
}


@pytest.mark.parametrize("what", RECURSION)
def test_recursion(compiled, what):
    problems = compiled(RECURSION[what] + "\n")
    assert any(p.startswith("1: recursive function calls") for p in problems), problems


def test_what_only_looks_like_recursion_passes(lint):
    text = """inline float sq(float x) { return x * x; }
inline half sq(half x) { return half(sq(float(x))); }
template <int n> struct Sum { static int of() { return n + Sum<n - 1>::of(); } };
template <> struct Sum<0> { static int of() { return 0; } };
inline int six() { return Sum<3>::of(); }
inline float exp(float x, int n) { return metal::exp(x) + n; }
"""
    assert lint(text) == []


POINTERS = {
    "a parameter": "inline float f(float (*g)(float), float x) { return g(x); }",
    "an alias": (
        "using F = float (*)(float); inline float f(thread F& g, float x) { return g(x); }"
    ),
    "dereferenced": "inline float f(float (*g)(float), float x) { return (*g)(x); }",
}


@pytest.mark.parametrize("what", POINTERS)
def test_calls_through_pointers(compiled, what):
    problems = compiled(POINTERS[what] + "\n")
    assert any(p.startswith("1: a call through a pointer") for p in problems), problems


PRODUCT = "inline float f(float a, float b, float c) { return a * b + c; }\n"
INCLUDE = "#include <metal_stdlib>\n"
OFF = "#pragma clang fp contract(off)\n"


def test_without_the_pragma(compiled):
    problems = compiled(PRODUCT, head=INCLUDE)
    assert "1: may be contracted: '#pragma clang fp contract(off)' does not cover it" in problems
    assert any("code before '#pragma clang fp contract(off)'" in p for p in problems)


def test_the_pragma_after_a_header_of_ours(compiled):
    problems = compiled('#include "own.h"\n' + OFF, head=INCLUDE, own=PRODUCT)
    assert any("own.h: code before" in p for p in problems), problems
    assert any("own.h: may be contracted" in p for p in problems), problems
    assert compiled(OFF + '#include "own.h"\n', head=INCLUDE, own=PRODUCT) == []


def test_a_file_without_floating_point_has_it_too(rules):
    assert any("has no" in p for p in rules("", head=INCLUDE))


@pytest.mark.parametrize(
    "pragma",
    [
        "clang fp contract(fast)",
        "clang fp contract(on)",
        "clang fp reassociate(on)",
        "STDC FP_CONTRACT ON",
        "METAL fp math_mode(relaxed)",
    ],
)
def test_nothing_turns_it_on_again(rules, pragma):
    problems = rules(f"\n#pragma {pragma}\n{PRODUCT}")
    assert any(p.startswith("2: a kernel's arithmetic is set by") for p in problems), problems
