"""Runs clang: preprocessing, and compiling what `rewrite` made of the source."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from . import exports, identity, restrictions
from .errors import MslError, ToolError
from .kernels import Kernel, find_kernels
from .rewrite import analyse, rewrite

_OLDEST_CLANG = 16
_NEWEST_CLANG = 30

_X86_64_V3 = frozenset(["avx2", "fma", "f16c", "bmi1", "bmi2", "movbe", "abm"])

_FLAGS = [
    *["-x", "c++", "-fdeclspec", "-O2", "-gline-tables-only", "-fPIC", "-shared"],
    *["-nostdinc", "-nostdinc++", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti"],
    *["-fno-threadsafe-statics", "-nostdlib++", "-Wl,--no-undefined"],  # no C++ runtime
    # Numerics: nothing is contracted, half rounds after every operation, conversions to integer
    # saturate (as on Apple GPUs), integers wrap.
    *["-ffp-contract=off", "-fno-math-errno", "-fno-strict-float-cast-overflow", "-fwrapv"],
    *["-Xclang", "-ffloat16-excess-precision=none", "-fsigned-char", "-fno-strict-aliasing"],
    # What is undefined stops the kernel (msl/runtime/checks.h), or at least is no zero by chance.
    "-fsanitize=array-bounds,alignment,integer-divide-by-zero,shift-exponent,return",
    *["-fno-sanitize-recover=all", "-fno-sanitize-link-runtime"],
    # `T a[4]` at the end of a struct has four elements, not any number.
    "-fstrict-flex-arrays=3",
    "-ftrivial-auto-var-init=pattern",
]
# A tracing build (msl/runtime/tracing.h): a call before each access to memory. Loops stay as the
# source has them, so that the width of an access is that of the source, and accesses are not
# counted less because one before them was the same.
_TRACING_FLAGS = [
    *["-DSM_TRACING", "-fsanitize=kernel-address", "-fno-vectorize", "-fno-slp-vectorize"],
    *(
        word
        for option in (
            "asan-instrumentation-with-call-threshold=0",
            "asan-kernel-mem-intrinsic-prefix=1",
            "asan-opt=0",
            "asan-stack=0",
            "asan-globals=0",
            "asan-instrument-dynamic-allocas=0",
            "asan-constructor-kind=none",
            "disable-loop-idiom-all",
        )
        for word in ("-mllvm", f"-{option}")
    ),
]
# MSL allows these, or the rewriting causes them.
_SILENCED = [
    "c++17-extensions",
    "c++20-extensions",
    "duplicate-decl-specifier",
    "ignored-qualifiers",
    "missing-braces",
    "parentheses",
    "static-in-inline",
    "undefined-inline",
    "undefined-internal",
    "unknown-pragmas",
    "unused",
    "user-defined-literals",
]
_WARNINGS = ["-Wall", *(f"-Wno-{name}" for name in _SILENCED)]


@dataclass
class Options:
    """What a source is compiled with."""

    language_version: tuple[int, int] = (3, 1)
    macros: Mapping[str, str] = field(default_factory=dict)
    include_folders: list[str] = field(default_factory=list)
    name: str | None = None  # what diagnostics call the source
    trace: bool = False  # a tracing build


@dataclass
class Translation:
    """A source as C++."""

    cpp: str
    kernels: list[Kernel]


# ---- clang ----


@cache
def find_clang() -> str:
    """$SOFTMETAL_CLANG, else the newest clang++-NN, else clang++."""
    chosen = os.environ.get("SOFTMETAL_CLANG")
    if chosen:
        if not shutil.which(chosen):
            raise ToolError(f"SOFTMETAL_CLANG is '{chosen}', which is not a program")
        return chosen
    for version in range(_NEWEST_CLANG, _OLDEST_CLANG - 1, -1):
        if found := shutil.which(f"clang++-{version}"):
            return found
    found = shutil.which("clang++")
    if found and _clang_version(found) >= _OLDEST_CLANG:
        return found
    raise ToolError(
        f"compiling a Metal shader on the software device needs clang++ {_OLDEST_CLANG} or newer, "
        "which was not found. Install it with\n"
        "    apt-get install clang-19    # or any clang-NN >= 16 of your release\n"
        "or set SOFTMETAL_CLANG to its path."
    )


def _clang_version(program: str) -> int:
    shown = subprocess.run([program, "-dumpversion"], capture_output=True, text=True, check=False)
    major = shown.stdout.split(".")[0]
    return int(major) if major.isdigit() else 0


@cache
def target_flags() -> list[str]:
    """For which processor: $SOFTMETAL_CPU, else x86-64-v3 where this is one, else the baseline."""
    if chosen := os.environ.get("SOFTMETAL_CPU"):
        return [f"-march={chosen}"]
    if platform.machine() not in ("x86_64", "AMD64"):
        return ["-march=armv8-a"]
    try:
        flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        flags = None
    has_v3 = flags is not None and set(flags[1].split()) >= _X86_64_V3
    return ["-march=x86-64-v3" if has_v3 else "-march=x86-64"]


def standard(options: Options) -> str:
    """MSL is C++14 before version 4, C++17 since."""
    return "-std=c++17" if options.language_version >= (4, 0) else "-std=c++14"


def metal_version(options: Options) -> int:
    """__METAL_VERSION__: 310 for 3.1."""
    return options.language_version[0] * 100 + options.language_version[1] * 10


def preprocess(source: bytes, options: Options, folder: str | None) -> str:
    """The source with headers and macros expanded; `folder`: of includes in quotes."""
    version = metal_version(options)
    command = [
        *[find_clang(), "-E", "-x", "c++", standard(options), "-undef", "-nostdinc", "-nostdinc++"],
        *["-Wno-pragma-once-outside-header", "-Wno-gnu-line-marker"],
        f"-I{identity.MSL}",
        *([f"-iquote{folder}"] if folder else []),
        *(f"-I{include}" for include in options.include_folders),
        *["-D__METAL__=1", f"-D__METAL_VERSION__={version}", "-D__METAL_MACOS__=1"],
        *["-D__clang__=1", "-D__UINT32_MAX__=0xffffffffu"],
        *(["-D__HAVE_BFLOAT__=1"] if version >= 310 else []),
        *(f"-D{name}={value}" for name, value in options.macros.items()),
        "-",
    ]
    first_line = f'# 1 "{options.name or "program_source"}"\n'.encode()
    run = subprocess.run(command, input=first_line + source, capture_output=True, check=False)
    if run.returncode:
        raise MslError(_text(run.stderr))
    return _text(run.stdout)


def _text(output: bytes) -> str:
    return output.decode("utf-8", "surrogateescape")


# ---- translation ----


def translate(source: bytes, options: Options, folder: str | None = None) -> Translation:
    """MSL to the C++ of a kernel library."""
    tokens, found = analyse(preprocess(source, options, folder))
    restrictions.check(tokens, found, options.language_version)
    kernels = find_kernels(tokens, found)
    rewrite(tokens, found)
    hashed = identity.hashed_text(source, options.language_version, options.macros, options.trace)
    tail = exports.library_table(found, kernels, _text(hashed))
    return Translation(tokens.result() + tail, kernels)


def compile_library(translation: Translation, options: Options, output: Path) -> str:
    """Writes the kernel library; returns the compiler's warnings."""
    with _beside(output) as temporary:
        command = [
            *[find_clang(), *_FLAGS, *(_TRACING_FLAGS if options.trace else [])],
            *[standard(options), *target_flags()],
            *_WARNINGS,
            f"-D__METAL_VERSION__={metal_version(options)}",
            *[f"-I{identity.MSL}", "-include", "softmetal_msl.h", "-include", "softmetal_words.h"],
            *["-", "-o", str(temporary), "-lm"],
        ]
        source = translation.cpp.encode("utf-8", "surrogateescape")
        run = subprocess.run(command, input=source, capture_output=True, check=False)
        if run.returncode:
            raise MslError(_of_the_source(_text(run.stderr)))
        os.replace(temporary, output)
    return _text(run.stderr)


def _of_the_source(diagnostics: str) -> str:
    """Without what follows from the source's own errors in the table at the end of the file."""
    own, _, _ = diagnostics.partition(f"{exports.TABLE}:")
    return own or diagnostics


@contextlib.contextmanager
def _beside(output: Path) -> Iterator[Path]:
    """A temporary file in the same folder, so that renaming it is atomic. Removed if left."""
    output.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{output.name}.", dir=output.parent)
    os.close(handle)
    os.chmod(name, 0o644)
    try:
        yield Path(name)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
