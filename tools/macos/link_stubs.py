"""Link stubs (.tbd) of Apple's system libraries, written from evidence and not from an SDK.

A symbol is listed for a library if a dylib of a released macOS wheel imports it from there: Apple's
own linker recorded that pair. EXTRA names the few that no wheel at hand imports, with the reason.
libSystem is different: its whole list comes with the Darwin headers.
"""

import collections
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from .paths import tool

FRAMEWORKS = "/System/Library/Frameworks"
INSTALL_NAMES = {
    "libc++": "/usr/lib/libc++.1.dylib",
    "libobjc": "/usr/lib/libobjc.A.dylib",
    "CoreFoundation": f"{FRAMEWORKS}/CoreFoundation.framework/Versions/A/CoreFoundation",
    "Foundation": f"{FRAMEWORKS}/Foundation.framework/Versions/C/Foundation",
    "Metal": f"{FRAMEWORKS}/Metal.framework/Versions/A/Metal",
}

# A program that links Foundation alone gets these with it.
REEXPORTS = {"Foundation": ("CoreFoundation", "libobjc")}

EXTRA: dict[str, set[str]] = {
    # libc++ 19's <streambuf> leaves these to the library, which has them since macOS 10.7; Apple's
    # newer headers inline them, so no wheel imports them.
    "libc++": {
        "__ZNSt3__115basic_streambufIcNS_11char_traitsIcEEEC2Ev",
        "__ZNSt3__115basic_streambufIcNS_11char_traitsIcEEED2Ev",
    },
    # A class since macOS 10.12 (introduced.txt). Code that makes its objects by metal-cpp, as that
    # in the wheels does, looks it up by name and does not link it.
    "Metal": {"_OBJC_CLASS_$_MTLFunctionConstantValues"},
}

IMPORT = re.compile(r"\(undefined\)(?: weak)? external (\S+) \(from ([^)]+)\)")
CLASS = "_OBJC_CLASS_$_"


def imports(dylib: Path) -> list[tuple[str, str]]:
    """The (symbol, library) pairs that a dylib binds at load time."""
    command = [tool("llvm-nm"), "-m", "-u", "--arch=arm64", str(dylib)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return IMPORT.findall(out)


def attested(dylibs: Iterable[Path]) -> dict[str, set[str]]:
    """Library -> symbols that some dylib imports from it."""
    found: dict[str, set[str]] = collections.defaultdict(set)
    for dylib in dylibs:
        for symbol, library in imports(dylib):
            found[library].add(symbol)
    return found


def stub(library: str, symbols: Iterable[str]) -> str:
    """The text of a .tbd file."""
    names = sorted(symbols)
    lists = {
        "symbols": [name for name in names if not name.startswith(CLASS)],
        "objc-classes": [name.removeprefix(CLASS) for name in names if name.startswith(CLASS)],
    }
    lines = [
        "--- !tapi-tbd",
        "tbd-version: 4",
        "targets: [ arm64-macos ]",
        f"install-name: '{INSTALL_NAMES[library]}'",
    ]
    reexports = [INSTALL_NAMES[other] for other in REEXPORTS.get(library, ())]
    if reexports:
        lines += ["reexported-libraries:", "  - targets: [ arm64-macos ]",
                  f"    libraries: [ {', '.join(map(repr, reexports))} ]"]  # fmt: skip
    lines += ["exports:", "  - targets: [ arm64-macos ]"]
    for kind, entries in lists.items():
        if entries:
            quoted = ", ".join(f"'{entry}'" for entry in entries)
            lines.append(f"    {kind}: [ {quoted} ]")
    return "\n".join([*lines, "...", ""])


def retarget(text: str) -> str:
    """libSystem's stub with target names that lld knows.

    The list that is at hand names arm64e only; what is for arm64e macOS is for arm64 as well. Other
    entries become x86_64's, and each document's head covers both.
    """

    def targets(found: re.Match[str]) -> str:
        name = "arm64-macos" if "arm64e-macos" in found[2] else "x86_64-macos"
        return f"targets:{found[1]}[ {name} ]"

    text = re.sub(r"targets:(\s+)\[([^\]]*)\]", targets, text)
    return re.sub(
        r"(tbd-version:\s+4\ntargets:\s+)\[[^\]]*\]", r"\1[ x86_64-macos, arm64-macos ]", text
    )
