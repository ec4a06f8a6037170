"""What a newer Metal brings is found unless __METAL_VERSION__ guards it, with a version that is new
enough."""

import pytest
from msl_lint.versions import NAMES


def kernel(statement):
    return f"kernel void k(device atomic_uint* x [[buffer(0)]]) {{\n{statement}\n}}\n"


def about_versions(problems):
    return [p for p in problems if "needs Metal" in p]


FENCE = "atomic_thread_fence(mem_flags::mem_device, memory_order_relaxed, thread_scope_device);"


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_name_of_the_table_is_found(rules, name):
    problems = about_versions(rules(kernel(f"{name};")))
    assert len(problems) == 1
    assert problems[0].startswith(f"2: '{name}' needs Metal ")


@pytest.mark.parametrize(
    ("include", "version"),
    [
        ("<metal_logging>", "3.2"),
        ("<metal_tensor>", "4.0"),
        ("<metal_cooperative_tensor>", "4.0"),
        ("<MetalPerformancePrimitives/MetalPerformancePrimitives.h>", "4.0"),
    ],
)
def test_headers_are_found(rules, include, version):
    problems = about_versions(rules(f"\n#include {include}\n"))
    assert problems == [
        f"2: {include} needs Metal {version}: put it between "
        f"'#if __METAL_VERSION__ >= {version.replace('.', '')}0' and '#endif'"
    ]


def test_pragmas_are_found(rules):
    problems = about_versions(rules("\n#pragma METAL fp math_mode(safe)\n"))
    assert problems[0].startswith("2: #pragma METAL fp math_mode needs Metal 3.2")


def test_a_macro_does_not_hide_a_name(rules):
    problems = about_versions(rules(f"#define FENCE() {FENCE}\n{kernel('FENCE();')}"))
    assert {p.split(" needs")[0] for p in problems} == {
        "3: 'atomic_thread_fence'",
        "3: 'thread_scope_device'",
    }


def test_a_guard_hides_it(rules):
    text = kernel(f"#if __METAL_VERSION__ >= 320\n{FENCE}\n#else\nx;\n#endif")
    assert about_versions(rules(text)) == []


def test_a_guard_for_the_wrong_version_does_not(rules):
    text = kernel("#if __METAL_VERSION__ >= 320\ntensor_handle;\n#endif")
    problems = about_versions(rules(text))
    assert [p.split(":", 2)[:2] for p in problems] == [["3", " 'tensor_handle' needs Metal 4.0"]]
    assert about_versions(rules(kernel("#if __METAL_VERSION__ >= 310\ntensor_handle;\n#endif")))


def test_a_guard_in_a_header_of_ours_counts(rules):
    header = "#if __METAL_VERSION__ >= 320\ninline void f() { tensor_handle; }\n#endif\n"
    problems = about_versions(rules('#include "own"\n'.replace("own", "own.h"), own=header))
    assert len(problems) == 1
    assert "own.h: 'tensor_handle' needs Metal 4.0" in problems[0]


def test_other_rules_hold_behind_a_guard_too(rules):
    text = kernel("#if __METAL_VERSION__ >= 320\ngoto end; end: ;\n#endif")
    assert any(p.startswith("3: 'goto'") for p in rules(text))


def test_a_lambda_behind_a_guard_passes(rules):
    text = kernel("#if __METAL_VERSION__ >= 320\nauto f = [] { return 1; }; f();\n#endif")
    assert rules(text) == []
