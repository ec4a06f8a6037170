"""Where the parts of the cross build are, and the tools that it runs."""

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "third_party" / "macos"
WORK = ROOT / "build" / "macos"  # ignored by git: downloads, the SDK, what is built
WHEELS = WORK / "wheels"
PARTS = WORK / "parts"
SDK = WORK / "sdk"

METAL_HEADERS = ROOT / "third_party" / "softmetal" / "include" / "Metal"
FOUNDATION_HEADERS = SOURCES / "include" / "Foundation"

LLVM = "19"  # of clang, lld, LLVM's tools and libc++'s headers; toolchain.cmake has it too
OLDEST_MACOS = "14.0"


class MissingTool(RuntimeError):
    """A program or a part is not there; the message says how to get it."""


def tool(name: str) -> str:
    """Path of a tool of LLVM, such as llvm-nm."""
    found = shutil.which(f"{name}-{LLVM}")
    if not found:
        raise MissingTool(
            f"{name}-{LLVM} was not found. Install it with:\n"
            f"    apt-get install clang-{LLVM} lld-{LLVM} llvm-{LLVM}"
        )
    return found


def part(name: str) -> Path:
    """Folder of something that fetch.py has unpacked."""
    folder = PARTS / name
    if not (folder / ".complete").exists():
        raise MissingTool(
            f"{folder.relative_to(ROOT)} is not there. Get it with:\n"
            "    PYTHONPATH=tools python -m macos fetch"
        )
    return folder
