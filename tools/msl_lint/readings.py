"""Kernels read again by compilers that are stricter in one respect than mslc."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from mslc import identity
from mslc.compile import find_clang, metal_version
from mslc.opencl_check import check_address_spaces
from mslc.rewrite import rewrite

from .source import Problem, Source

_DIAGNOSTIC = re.compile(
    r"^(.+?):(\d+):(?:\d+:)? (?:fatal )?(?:error|warning): (.*)$", re.MULTILINE
)
_CXX14 = ["-std=c++14", "-pedantic-errors", "-Wall", "-Wextra", "-Wno-gnu-line-marker"]
# Attributes of Metal are gone here; what is declared for a kernel's signature need not be used.
_CXX14 += ["-Wno-unused-parameter", "-Wno-unused-function", "-Wno-missing-braces"]
_CXX14 += ["-Wno-unused-const-variable"]


def as_opencl(source: Source) -> Iterator[Problem]:
    """As C++ for OpenCL, whose compiler knows address spaces."""
    diagnostics = check_address_spaces(
        source.path.read_bytes(), source.options, folder=source.folder
    )
    yield from problems_of(source.path, diagnostics, "read as OpenCL")


def as_cxx14(source: Source) -> Iterator[Problem]:
    """As C++14 without extensions, which is what Metal before version 4 is made of."""
    command = [*cxx_command(source), *_CXX14, "-fsyntax-only", "-"]
    run = subprocess.run(command, input=cxx(source), capture_output=True, check=False)
    yield from problems_of(source.path, run.stderr.decode("utf-8", "replace"), "read as C++14")


def cxx(source: Source) -> bytes:
    """The source as C++ for the software device's headers; template instances stay.

    Uses up the source's tokens.
    """
    tokens, found = source.tokens, source.found
    found.instantiations.clear()
    found.static_members.clear()  # mslc makes them inline, which is C++17
    rewrite(tokens, found)
    return tokens.result().encode("utf-8", "surrogateescape")


def cxx_command(source: Source) -> list[str]:
    """clang for what cxx() gives; the headers are the system's, so only the source is judged."""
    return [
        *[find_clang(), "-x", "c++", "-nostdinc", "-nostdinc++", "-fdeclspec"],
        *["-fno-exceptions", "-fno-rtti", f"-D__METAL_VERSION__={metal_version(source.options)}"],
        *["-isystem", str(identity.MSL)],
        *["-include", "softmetal_msl.h", "-include", "softmetal_words.h"],
    ]


def problems_of(path: Path, diagnostics: str, how: str) -> Iterator[Problem]:
    """What a compiler printed; at line 1 of `path` if it named no line."""
    found = False
    for file, line, message in _DIAGNOSTIC.findall(diagnostics):
        found = True
        if "'softmetal_" not in message:  # a variable that mslc added
            yield Problem(file, int(line), f"{how}: {message}")
    if diagnostics.strip() and not found:
        yield Problem(str(path), 1, f"{how}: {diagnostics.strip()}")
