"""Reads a Mach-O file: load commands, imports, exports and the code signature."""

import hashlib
import re
import struct
import subprocess
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from .paths import tool

LC_ID_DYLIB = 0xD
LC_LOAD_DYLIB = 0xC
LC_LOAD_WEAK_DYLIB = 0x80000018
LC_RPATH = 0x8000001C
LC_CODE_SIGNATURE = 0x1D
LC_BUILD_VERSION = 0x32

MAGIC_64 = 0xFEEDFACF
CPU_ARM64 = 0x0100000C
BUNDLE = 8
PLATFORM_MACOS = 1

SUPERBLOB = 0xFADE0CC0
CODE_DIRECTORY = 0xFADE0C02
SHA256 = (32, 2)  # size of a hash, number of the algorithm
ADHOC = 0x2


class MachOError(ValueError):
    """The file is not what it should be."""


@dataclass(frozen=True)
class Import:
    """A symbol that the loader finds elsewhere; `library` is "python" for those named late."""

    symbol: str
    library: str
    weak: bool


@dataclass(frozen=True)
class Signature:
    """A code signature; `bad_pages` are those whose hash is not that of their bytes."""

    flags: int
    bad_pages: list[int]


@dataclass
class MachO:
    """What this project checks of a binary."""

    cpu: int
    file_type: int
    platform: int = 0
    oldest_macos: str = ""
    dylibs: list[str] = field(default_factory=list)
    rpaths: list[str] = field(default_factory=list)
    signature: Signature | None = None


def commands(data: bytes) -> list[tuple[int, bytes]]:
    """Load commands as (number, bytes)."""
    found, at = [], 32
    for _ in range(struct.unpack_from("<I", data, 16)[0]):
        number, size = struct.unpack_from("<2I", data, at)
        found.append((number, data[at : at + size]))
        at += size
    return found


def string_of(command: bytes) -> str:
    """The name that a dylib or rpath command carries."""
    offset = struct.unpack_from("<I", command, 8)[0]
    return command[offset:].split(b"\0")[0].decode()


def version(number: int) -> str:
    """A version packed as Mach-O does, e.g. "14.0"."""
    return f"{number >> 16}.{number >> 8 & 255}"


def code_directory(data: bytes, start: int) -> int:
    """Where the code directory is, in a signature that starts at `start`."""
    magic, _, count = struct.unpack_from(">3I", data, start)
    if magic != SUPERBLOB:
        raise MachOError("the code signature has no head")
    for i in range(count):
        slot, offset = struct.unpack_from(">2I", data, start + 12 + 8 * i)
        if slot == 0:
            return start + int(offset)
    raise MachOError("the code signature has no code directory")


def read_signature(data: bytes, command: bytes) -> Signature:
    """The signature that LC_CODE_SIGNATURE names, its hashes compared with the file's pages."""
    start = struct.unpack_from("<I", command, 8)[0]
    at = code_directory(data, start)
    magic, _, _, flags, hashes, _, _, count, limit = struct.unpack_from(">9I", data, at)
    size, kind, _, page_bits = struct.unpack_from(">4B", data, at + 36)
    if magic != CODE_DIRECTORY or (size, kind) != SHA256:
        raise MachOError("the code signature has no SHA-256 code directory")
    if limit != start:
        raise MachOError("the code signature does not cover the file up to itself")
    page = 1 << page_bits
    bad = []
    for n in range(count):
        wanted = data[at + hashes + size * n :][:size]
        if hashlib.sha256(data[n * page : min((n + 1) * page, limit)]).digest() != wanted:
            bad.append(n)
    return Signature(flags, bad)


def read(path: Path) -> MachO:
    """Parse a 64-bit Mach-O file."""
    data = path.read_bytes()
    if len(data) < 32 or struct.unpack_from("<I", data)[0] != MAGIC_64:
        raise MachOError(f"{path.name} is not a 64-bit Mach-O file")
    cpu, _, file_type = struct.unpack_from("<3I", data, 4)
    binary = MachO(cpu, file_type)
    for number, command in commands(data):
        if number in (LC_LOAD_DYLIB, LC_LOAD_WEAK_DYLIB):
            binary.dylibs.append(string_of(command))
        elif number == LC_RPATH:
            binary.rpaths.append(string_of(command))
        elif number == LC_BUILD_VERSION:
            binary.platform, oldest = struct.unpack_from("<2I", command, 8)
            binary.oldest_macos = version(oldest)
        elif number == LC_CODE_SIGNATURE:
            binary.signature = read_signature(data, command)
    return binary


def nm(path: Path, *flags: str) -> str:
    """Output of llvm-nm."""
    command = [tool("llvm-nm"), "--arch=arm64", *flags, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def imports(path: Path) -> list[Import]:
    """All undefined symbols, with the library that each is bound to."""
    found = re.findall(
        r"\(undefined\)( weak)? external (\S+) \((?:from )?([^)]+)\)", nm(path, "-m", "-u")
    )
    return [
        Import(symbol, "python" if "dynamically" in library else library, bool(weak))
        for weak, symbol, library in found
    ]


@cache
def exports(path: Path) -> frozenset[str]:
    """Names that others can import."""
    return frozenset(nm(path, "-g", "-U", "-j").split())
