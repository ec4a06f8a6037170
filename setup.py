"""Build of mps_ds: setuptools drives CMake, which fills the package folder with native code.

MPS_DS_BUILD       "metal" (default): everything. "cpu": only what needs no Metal.
MPS_DS_BUILD_DIR   CMake's build folder (default: build/<platform>-<python>-<kind>); kept, so that
                   a rebuild is fast.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
KINDS = ("metal", "cpu")
OLDEST_PYTHON = (3, 10)
OLDEST_MACOS = 14


def build_kind() -> str:
    """What MPS_DS_BUILD asks for."""
    kind = os.environ.get("MPS_DS_BUILD", "metal")
    if kind not in KINDS:
        raise SystemExit(f"MPS_DS_BUILD={kind}: accepted are {', '.join(KINDS)}")
    return kind


def why_not() -> str | None:
    """Why this Python or this machine cannot use the package, and what to do; None: they can."""
    if sys.version_info < OLDEST_PYTHON:
        return (
            f"mps_ds needs Python 3.10 or later; this is Python {platform.python_version()} "
            f"({sys.executable}). Make an environment from a newer one, and install into that:\n"
            "    python3.12 -m venv .venv && .venv/bin/python -m pip install ."
        )
    if sys.platform.startswith("linux"):
        return None
    if sys.platform != "darwin":
        return f"mps_ds builds on macOS (arm64) and Linux, not on {sys.platform}"
    if platform.machine() != "arm64":
        return (
            "mps_ds needs Apple Silicon and a native arm64 Python; this Python is "
            f"{platform.machine()} (on an Apple Silicon Mac: it runs under Rosetta). "
            "Install one with:\n    brew install python@3.12"
        )
    macos = platform.mac_ver()[0]
    if macos and macos != "10.16" and int(macos.split(".")[0]) < OLDEST_MACOS:  # 10.16: not told
        return (
            f"mps_ds needs macOS {OLDEST_MACOS} or later, for Metal 3.1; this is macOS {macos}. "
            "Update it in System Settings > General > Software Update"
        )
    return None


def check_tools(kind: str) -> None:
    """Refuse a Mac without a compiler, before CMake says it less clearly."""
    if sys.platform != "darwin" or kind != "metal":
        return
    if subprocess.run(["xcrun", "--find", "clang++"]).returncode:
        raise SystemExit(
            "mps_ds needs Apple's command-line tools. Install them with:\n"
            "    xcode-select --install"
        )


def tool(name: str) -> str:
    """Path of cmake or ninja: from this Python's environment, else from PATH."""
    folder = Path(sys.executable).parent
    found = shutil.which(name, path=f"{folder}{os.pathsep}{os.environ.get('PATH', '')}")
    if not found:
        raise SystemExit(
            f"mps_ds needs {name} to build. Install it with:\n"
            f"    {sys.executable} -m pip install {name}"
        )
    return found


class CMakeBuild(build_ext):
    """Configures, builds and installs the native code into the package folder."""

    def run(self) -> None:
        """Build all of it: CMake knows the extensions, setuptools does not."""
        kind = build_kind()
        check_tools(kind)
        default = f"build/{sysconfig.get_platform()}-{sys.implementation.cache_tag}-{kind}"
        folder = Path(os.environ.get("MPS_DS_BUILD_DIR", ROOT / default)).resolve()
        target = ROOT / "python" if self.inplace else Path(self.build_lib).resolve()
        configure = [
            tool("cmake"), "-S", str(ROOT), "-B", str(folder), "-G", "Ninja",
            f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}",
            f"-DPython3_EXECUTABLE={sys.executable}",
            f"-DMPS_DS_METAL={'ON' if kind == 'metal' else 'OFF'}",
        ]  # fmt: skip
        if sys.platform == "darwin":
            configure += [
                "-DCMAKE_OSX_ARCHITECTURES=arm64",
                f"-DCMAKE_OSX_DEPLOYMENT_TARGET={os.environ['MACOSX_DEPLOYMENT_TARGET']}",
            ]
        for command in (
            configure,
            [tool("cmake"), "--build", str(folder)],
            [tool("cmake"), "--install", str(folder), "--prefix", str(target)],
        ):
            if subprocess.run(command).returncode:
                raise SystemExit(f"mps_ds: this step of the build failed: {' '.join(command)}")


class BuildPy(build_py):
    """Adds the start-up hooks behind MPS_DS_SOFT=1 and MPS_DS_DEEPSPEED=1."""

    def run(self) -> None:
        """Copy the packages, then the hooks beside them."""
        super().run()
        if not self.editable_mode:
            for hook in ("mps_ds_soft.pth", "mps_ds_deepspeed.pth"):
                self.copy_file(str(ROOT / "python" / hook), self.build_lib)


# This file runs on Pythons that are too old as well, to say so (pyproject.toml: requires).
refused = why_not()
if refused:
    raise SystemExit(refused)

if sys.platform == "darwin":
    # What the binary needs, not what this Python was built for, names the wheel.
    os.environ.setdefault("MACOSX_DEPLOYMENT_TARGET", "14.0")
    os.environ.setdefault("_PYTHON_HOST_PLATFORM", "macosx-14.0-arm64")

setup(
    # CMake knows the sources; the extension's name alone makes the wheel a platform wheel.
    ext_modules=[Extension("mps_ds._C", sources=[])],
    cmdclass={"build_ext": CMakeBuild, "build_py": BuildPy},
)
