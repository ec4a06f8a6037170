"""Which compiled library belongs to which source.

A library is named `<key>-<digest>.so`. The key identifies the source and its options, the digest
the compiler: mslc and the headers it compiles against. The host computes the same key (see
newLibraryWithSource:) and reads the digest from msl/DIGEST, where the installation puts what
`mslc --digest` prints.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
MSL = PACKAGE.parent / "msl"

_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3


def language_version_number(version: tuple[int, int]) -> int:
    """The MTLLanguageVersion: 3.1 is 0x30001."""
    return (version[0] << 16) + version[1]


def hashed_text(
    source: bytes, version: tuple[int, int], macros: Mapping[str, str], trace: bool = False
) -> bytes:
    """All that a library depends on, except for the compiler."""
    lines = [str(language_version_number(version)) + (" traced" if trace else "")]
    lines += [f"{name}={macros[name]}" for name in sorted(macros)]
    return "\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape") + source


def key(text: bytes) -> str:
    """16 hexadecimal digits: FNV-1a, 64 bits."""
    value = _FNV_OFFSET
    for byte in text:
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def digest() -> str:
    """12 hexadecimal digits over mslc and the headers."""
    total = hashlib.sha256()
    for folder in (PACKAGE, MSL):
        for path in sorted(folder.rglob("*")):
            relative = path.relative_to(folder)
            if path.is_file() and path.name != "DIGEST" and "__pycache__" not in relative.parts:
                total.update(f"{folder.name}/{relative.as_posix()}\n".encode())
                total.update(path.read_bytes())
    return total.hexdigest()[:12]


def library_name(text: bytes) -> str:
    """The file name of the library that is compiled from `text`."""
    return f"{key(text)}-{digest()}.so"
