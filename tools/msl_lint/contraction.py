"""`#pragma clang fp contract(off)` before all code of a kernel file, its headers' included.

Metal contracts a * b + c into fma(a, b, c) where nothing forbids it, also with safe math, and
breaks arithmetic that is exact without. The pragma holds for what follows it, so it stands before
the first include in quotes. compiled.py sees whether it worked; here, that nothing turns it on
again, and that vector arithmetic, which the software device does in functions, is covered too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .source import Problem, Source

_OFF = re.compile(r"\s*#\s*pragma\s+clang\s+fp\s+contract\s*\(\s*off\s*\)\s*$")
_OTHER = re.compile(
    r"\s*#\s*pragma\s+(clang\s+fp\b|STDC\s+FP_CONTRACT\b|METAL\s+fp\b|clang\s+optimize\b|"
    r"float_control\b)"
)
_NO_CODE = re.compile(r"\s*(using\s+namespace\s+\w+\s*;)?\s*$")
WANTED = "'#pragma clang fp contract(off)'"


def check(source: Source) -> Iterator[Problem]:
    """Code before the pragma, and pragmas that change arithmetic in another way."""
    off = False
    for file, line, text in source.lines():
        if _OFF.match(text):
            off = True
        elif _OTHER.match(text):
            yield Problem(
                file, line, f"a kernel's arithmetic is set by {WANTED} and by nothing else"
            )
        elif not off and not _NO_CODE.match(text) and not text.lstrip().startswith("#"):
            yield Problem(
                file, line, f"code before {WANTED}, which belongs before our first include"
            )
            return
    if not off:
        yield Problem(str(source.path), 1, f"has no {WANTED}")
