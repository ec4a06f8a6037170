"""Downloads what the cross build is made from, by name and version, with pip and apt.

Nothing of it is committed: it lies in build/macos, and a part that is there is not fetched again.
"""

import fnmatch
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from .paths import LLVM, PARTS, ROOT, WHEELS, MissingTool

MACOS = ("--platform", "macosx_14_0_arm64", "--python-version", "3.11")


@dataclass(frozen=True)
class Wheel:
    """A wheel, and the files of it that are unpacked."""

    name: str  # of the folder in build/macos/parts
    requirement: str
    members: tuple[str, ...]
    target: tuple[str, ...] = MACOS


def pinned_torch() -> str:
    """The PyTorch whose headers every build uses."""
    found = re.search(r'"(torch==[\d.]+)[;"]', (ROOT / "pyproject.toml").read_text())
    assert found, "pyproject.toml pins the torch of the build"
    return found[1]


def oldest_torch() -> str:
    """The oldest PyTorch that the package accepts."""
    found = re.search(r'"torch>=(\d+\.\d+)"', (ROOT / "pyproject.toml").read_text())
    assert found, "pyproject.toml names the oldest torch"
    return f"torch=={found[1]}.0"


def wheels() -> list[Wheel]:
    """What is taken from wheels."""
    return [
        Wheel(
            "torch",
            pinned_torch(),
            ("torch/include/*", "torch/version.py", "torch/lib/libtorch*.dylib",
             "torch/lib/libc10.dylib", "torch/lib/libshm.dylib"),
        ),
        Wheel("torch-oldest", oldest_torch(), ("torch/version.py", "torch/lib/libtorch_cpu.dylib")),
        Wheel(
            "metal-cpp", "mlx-metal==0.32.4", ("mlx/include/metal_cpp/*", "mlx/lib/libmlx.dylib")
        ),
        Wheel("pyobjc-metal", "pyobjc-framework-Metal==12.2.2", ("Metal/_metadata.py",)),
        Wheel("pyobjc-core", "pyobjc-core==12.2.2", ("objc/_objc.cpython-311-darwin.so",)),
        # The C library's and the Objective-C runtime's headers of macOS, and its list of symbols.
        Wheel(
            "darwin",
            "ziglang==0.17.1",
            ("ziglang/lib/libc/include/any-darwin-any/*", "ziglang/lib/libc/darwin/*"),
            target=(),
        ),
    ]  # fmt: skip


def run(*command: str, cwd: Path | None = None) -> None:
    """Run a command; its output is shown only if it fails."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
        raise SystemExit(f"this step of the set-up failed: {' '.join(command)}")


def begin(name: str, version: str) -> Path | None:
    """An empty folder for a part, or None where this version of it is there."""
    folder = PARTS / name
    mark = folder / ".complete"
    if mark.exists() and mark.read_text() == version:
        return None
    print(f"==> {version}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def fetch_wheel(wheel: Wheel) -> None:
    """Download a wheel and unpack what is needed of it."""
    folder = begin(wheel.name, wheel.requirement)
    if folder is None:
        return
    downloads = WHEELS / wheel.name
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps"]
    run(*pip, "--only-binary=:all:", *wheel.target, "--dest", str(downloads), wheel.requirement)
    version = wheel.requirement.split("==")[1]
    (archive,) = downloads.glob(f"*-{version}-*.whl")
    with zipfile.ZipFile(archive) as content:
        wanted = [
            name
            for name in content.namelist()
            if any(fnmatch.fnmatch(name, pattern) for pattern in wheel.members)
        ]
        content.extractall(folder, wanted)
    (folder / ".complete").write_text(wheel.requirement)


def fetch_libcxx() -> None:
    """libc++'s headers, from Debian's package; nothing is installed."""
    package = f"libc++-{LLVM}-dev"
    folder = begin("libcxx", package)
    if folder is None:
        return
    if not shutil.which("apt-get"):
        raise MissingTool(f"apt-get, which brings {package}, is not there")
    if subprocess.run(["apt-get", "download", package], cwd=folder, capture_output=True).returncode:
        run("apt-get", "update")
        run("apt-get", "download", package, cwd=folder)
    (archive,) = folder.glob("*.deb")
    run("dpkg-deb", "-x", str(archive), str(folder))
    (folder / ".complete").write_text(package)


def install_llvm() -> None:
    """Clang, the linker for Mach-O, and LLVM's tools."""
    needed = {f"clang-{LLVM}": f"clang++-{LLVM}", f"lld-{LLVM}": f"ld64.lld-{LLVM}",
              f"llvm-{LLVM}": f"llvm-nm-{LLVM}"}  # fmt: skip
    missing = [package for package, program in needed.items() if not shutil.which(program)]
    if missing:
        print(f"==> system packages: {' '.join(missing)}", flush=True)
        run("apt-get", "update")
        run("apt-get", "install", "-y", "--no-install-recommends", *missing)


def fetch() -> None:
    """Get every part that is missing."""
    if not sys.platform.startswith("linux"):
        raise MissingTool("this is the build on Linux; a Mac builds with: pip wheel --no-deps .")
    install_llvm()
    for wheel in wheels():
        fetch_wheel(wheel)
    fetch_libcxx()
