"""Rules for the extension that ships to a Mac, checked on the Mach-O file itself."""

import fnmatch
from dataclasses import dataclass
from pathlib import Path

from . import macho
from .paths import OLDEST_MACOS, ROOT, SOURCES, part

RPATH = "@loader_path/../torch/lib"
EXPORTS = {"_PyInit__C"}
FRAMEWORKS = "/System/Library/Frameworks"
DYLIBS = {
    "@rpath/libtorch_cpu.dylib",
    "/usr/lib/libSystem.B.dylib",
    "/usr/lib/libc++.1.dylib",
    "/usr/lib/libobjc.A.dylib",
    f"{FRAMEWORKS}/CoreFoundation.framework/Versions/A/CoreFoundation",
    f"{FRAMEWORKS}/Foundation.framework/Versions/C/Foundation",
    f"{FRAMEWORKS}/Metal.framework/Versions/A/Metal",
}


@dataclass(frozen=True)
class Allowed:
    """A line of allowed_imports.txt."""

    library: str
    patterns: tuple[str, ...]
    weak: bool

    def covers(self, symbol: macho.Import) -> bool:
        """Whether this line allows that import."""
        same = (self.library, self.weak) == (symbol.library, symbol.weak)
        return same and any(fnmatch.fnmatchcase(symbol.symbol, p) for p in self.patterns)


def allowed_imports() -> list[Allowed]:
    """The list of what may be imported."""
    lines = (SOURCES / "allowed_imports.txt").read_text().splitlines()
    found = []
    for line in lines:
        words = line.partition("#")[0].split()
        if not words:
            continue
        weak = words[0] == "weak"
        library, *patterns = words[weak:]
        found.append(Allowed(library, tuple(patterns), weak))
    return found


def check_header(binary: macho.MachO) -> list[str]:
    """Kind of file, oldest macOS, libraries and where they are searched."""
    problems = []
    if (binary.cpu, binary.file_type) != (macho.CPU_ARM64, macho.BUNDLE):
        problems.append(f"CPU {binary.cpu:#x}, file type {binary.file_type}: not an arm64 bundle")
    if (binary.platform, binary.oldest_macos) != (macho.PLATFORM_MACOS, OLDEST_MACOS):
        problems.append(
            f"made for platform {binary.platform}, {binary.oldest_macos}; not macOS {OLDEST_MACOS}"
        )
    if binary.rpaths != [RPATH]:
        problems.append(f"rpaths are {binary.rpaths}, not {[RPATH]}")
    problems += [f"links {dylib}" for dylib in binary.dylibs if dylib not in DYLIBS]
    return problems


def check_signature(binary: macho.MachO) -> list[str]:
    """arm64 Macs load nothing whose signature is missing or wrong."""
    if binary.signature is None:
        return ["has no code signature"]
    problems = []
    if not binary.signature.flags & macho.ADHOC:
        problems.append(f"the signature's flags are {binary.signature.flags:#x}: not ad hoc")
    if binary.signature.bad_pages:
        problems.append(f"pages {binary.signature.bad_pages} differ from what was signed")
    return problems


def check_imports(path: Path) -> list[str]:
    """Each import is on the list, and each of PyTorch's is in the oldest PyTorch as well."""
    rules = allowed_imports()
    problems = []
    torches = {name: part(name) / "torch/lib/libtorch_cpu.dylib" for name in
               ("torch", "torch-oldest")}  # fmt: skip
    for symbol in macho.imports(path):
        kind = "weak import" if symbol.weak else "import"
        if not any(rule.covers(symbol) for rule in rules):
            problems.append(f"{kind} of {symbol.symbol} from {symbol.library}: not on the list")
        if symbol.library != "libtorch_cpu":
            continue
        for name, dylib in torches.items():
            if symbol.symbol not in macho.exports(dylib):
                version = (part(name) / ".complete").read_text()
                problems.append(f"{symbol.symbol} is not in {version}")
    return problems


def check(path: Path) -> list[str]:
    """All that is wrong with the extension, in words; empty where nothing is."""
    binary = macho.read(path)
    problems = check_header(binary) + check_signature(binary) + check_imports(path)
    exports = macho.exports(path)
    if exports != EXPORTS:
        problems.append(f"exports {sorted(exports ^ EXPORTS)} differ from {sorted(EXPORTS)}")
    if str(ROOT).encode() in path.read_bytes():
        problems.append("names a path of the machine that built it")
    return problems
