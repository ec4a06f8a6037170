"""What only a compiler tells, read off LLVM's intermediate code of each function.

Recursion (also through overloads, templates and members, but not that of templates which end at
compile time), calls through pointers, and arithmetic that may be contracted: compiled with
-ffp-contract=fast, as Metal does by default, so that the kernel's own pragma is what forbids it.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field

from mslc import identity

from .readings import cxx, cxx_command
from .source import Problem, Source

# Nothing is optimised away, and functions that nobody calls are there too.
_FLAGS = [
    *["-std=c++14", "-w", "-O0", "-Xclang", "-disable-llvm-passes", "-femit-all-decls"],
    *["-gline-tables-only", "-ffp-contract=fast", "-S", "-emit-llvm", "-o", "-", "-"],
]
_FILE = re.compile(r'^!(\d+) = !DIFile\(filename: "([^"]*)", directory: "([^"]*)"', re.MULTILINE)
_SUBPROGRAM = re.compile(
    r'^!(\d+) = distinct !DISubprogram\(name: "([^"]*)".*?file: !(\d+), line: (\d+)', re.MULTILINE
)
_LOCATION = re.compile(r"^!(\d+) = (?:distinct )?!DILocation\(line: (\d+)", re.MULTILINE)
_SYMBOL = r'@("[^"]*"|[\w.$]+)'
_DEFINE = re.compile(rf"^define .*?{_SYMBOL}\(.*?!dbg !(\d+)")
_CALL = re.compile(rf"\b(?:call|invoke)\b.*?{_SYMBOL}\(")
_INDIRECT = re.compile(r"\b(?:call|invoke)\b[^@]*? %[\w.]+\(")
_CONTRACTED = re.compile(r"= (?:fadd|fsub|fmul) (?:\w+ )*?contract ")
_AT = re.compile(r"!dbg !(\d+)")


@dataclass
class _Function:
    name: str
    file: str
    line: int
    calls: set[str] = field(default_factory=set)
    body: list[str] = field(default_factory=list)


def check(source: Source) -> Iterator[Problem]:
    """All violations in functions that are not the shading language's own."""
    run = subprocess.run(
        [*cxx_command(source), *_FLAGS], input=cxx(source), capture_output=True, check=False
    )
    if run.returncode:
        return  # readings.as_cxx14 says what is wrong
    text = run.stdout.decode("utf-8", "replace")
    lines = dict(_LOCATION.findall(text))
    functions = _functions(text)
    for symbol, function in functions.items():
        if _reaches(symbol, functions):
            message = f"recursive function calls are not supported in Metal: '{function.name}'"
            yield Problem(function.file, function.line, message)
        for instruction in function.body:
            at = _AT.search(instruction)
            line = int(lines.get(at[1], function.line)) if at else function.line
            if _INDIRECT.search(instruction):
                yield Problem(function.file, line, "a call through a pointer: not in kernels")
            if _CONTRACTED.search(instruction):
                message = "may be contracted: '#pragma clang fp contract(off)' does not cover it"
                yield Problem(function.file, line, message)


def _functions(text: str) -> dict[str, _Function]:
    """Functions of ours by symbol."""
    files = {number: f"{folder}/{name}" for number, name, folder in _FILE.findall(text)}
    absolute = {number: name for number, name, _ in _FILE.findall(text) if name.startswith("/")}
    files.update(absolute)
    subprograms = {n: (name, files[f], int(line)) for n, name, f, line in _SUBPROGRAM.findall(text)}
    own: dict[str, _Function] = {}
    current: _Function | None = None
    for line in text.splitlines():
        if line.startswith("define "):
            defined = _DEFINE.match(line)
            current = _Function(*subprograms[defined[2]]) if defined else None
            if defined and current and not current.file.startswith(f"{identity.MSL}/"):
                own[defined[1]] = current
            else:
                current = None
        elif line.startswith("}"):
            current = None
        elif current is not None:
            current.body.append(line)
            if called := _CALL.search(line):
                current.calls.add(called[1])
    return own


def _reaches(symbol: str, functions: dict[str, _Function]) -> bool:
    todo, seen = list(functions[symbol].calls), set()
    while todo:
        called = todo.pop()
        if called == symbol:
            return True
        if called in functions and called not in seen:
            seen.add(called)
            todo.extend(functions[called].calls)
    return False
