"""The command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import identity
from .compile import Options, Translation, compile_library, translate
from .errors import MslError, ToolError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run mslc; returns the exit status."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    if parsed.digest:
        print(identity.digest())
        return 0
    if parsed.source is None:
        parser.error("a SOURCE is needed (a .metal file, or - for standard input)")
    try:
        return _compile(parsed)
    except (MslError, ToolError) as error:
        print(str(error).rstrip(), file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mslc", description="Compile Metal Shading Language for the software Metal device."
    )
    add = parser.add_argument
    add("source", nargs="?", help="a .metal file, or - for standard input")
    add("-o", "--output", help="library to write; a folder gets <key>-<digest>.so")
    add("--language-version", default="3.1", type=_version, metavar="X.Y", help="default 3.1")
    add("-D", dest="macros", action="append", default=[], type=_macro, metavar="NAME[=VALUE]")
    add("-I", dest="include_folders", action="append", default=[], metavar="FOLDER")
    add("--name", help="what diagnostics call the source")
    add("--trace", action="store_true", help="a tracing build: accesses to memory can be watched")
    add("--list", action="store_true", help="print the kernels and their arguments")
    add("--emit-cpp", action="store_true", help="print the generated C++ and stop")
    add("--check-address-spaces", action="store_true", help="only read it as OpenCL C++, and stop")
    add("--key", action="store_true", help="print the key of the source and stop")
    add("--digest", action="store_true", help="print the digest of this compiler and stop")
    return parser


def _version(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    if not (major.isdigit() and (minor or "0").isdigit()):
        raise argparse.ArgumentTypeError(f"'{text}' is not a version such as 3.1")
    return int(major), int(minor or "0")


def _macro(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    return name, value if equals else "1"


def _compile(parsed: argparse.Namespace) -> int:
    source, folder, name = _read(parsed.source)
    options = Options(
        language_version=parsed.language_version,
        macros=dict(parsed.macros),
        include_folders=parsed.include_folders,
        name=parsed.name or name,
        trace=parsed.trace,
    )
    hashed = identity.hashed_text(source, options.language_version, options.macros, options.trace)
    if parsed.key:
        print(identity.key(hashed))
        return 0
    if parsed.check_address_spaces:
        from .opencl_check import check_address_spaces

        diagnostics = check_address_spaces(source, options, folder)
        sys.stderr.write(diagnostics)
        return 1 if diagnostics else 0
    translation = translate(source, options, folder)
    if parsed.emit_cpp:
        print(translation.cpp)
        return 0
    if parsed.list:
        _list(translation)
    if parsed.output:
        output = Path(parsed.output)
        if output.is_dir() or parsed.output.endswith("/"):
            output = output / identity.library_name(hashed)
        sys.stderr.write(compile_library(translation, options, output))
    elif not parsed.list:
        raise ToolError("nothing to do: give -o, --list, --emit-cpp, --key or another action")
    return 0


def _read(source: str) -> tuple[bytes, str | None, str]:
    """(bytes, folder of its includes, name)"""
    if source == "-":
        return sys.stdin.buffer.read(), None, "program_source"
    try:
        return Path(source).read_bytes(), str(Path(source).parent), source
    except OSError as error:
        raise ToolError(f"{source}: {error.strerror}") from error


def _list(translation: Translation) -> None:
    for kernel in translation.kernels:
        arguments = ", ".join(
            f"{p.name}: {p.kind.removeprefix('SM_').lower()}"
            + (f"({p.index})" if p.index != "-1" else "")
            for p in kernel.parameters
        )
        print(f"{kernel.name} [{'fibers' if kernel.waits else 'loop'}] {arguments}")
