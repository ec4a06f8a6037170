"""The lint of kernels, from the source tree."""

import functools
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
for folder in ("tools", "third_party/softmetal"):
    if str(ROOT / folder) not in sys.path:
        sys.path.insert(0, str(ROOT / folder))

HEAD = """#include <metal_stdlib>
#pragma clang fp contract(off)
using namespace metal;
"""


@pytest.fixture
def lint(tmp_path):
    """`lint(text)`: "line: message" of each problem of a file; lines count from HEAD's end.

    `readings` chooses among the readings by compilers, which take a second: all by default.
    """
    from msl_lint import lint as module

    def run(text, head=HEAD, readings=module.READINGS, **headers):
        for name, content in headers.items():
            (tmp_path / f"{name}.h").write_text(content)
        path = tmp_path / "planted.metal"
        path.write_text(head + text)
        first = head.count("\n")
        return [
            f"{p.line - first}: {p.message}" if p.file == str(path) else f"{p.file}: {p.message}"
            for p in module.lint(path, readings)
        ]

    return run


@pytest.fixture
def rules(lint):
    """`lint` without compilers."""
    return functools.partial(lint, readings=())


@pytest.fixture
def compiled(lint):
    """`lint` with the rules that look at compiled functions."""
    from msl_lint import compiled

    return functools.partial(lint, readings=(compiled.check,))
