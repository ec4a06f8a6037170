"""`make macos-wheel`: the wheel for macOS, built by the project's own setup.py and CMakeLists.txt.

The environment tells setuptools, pybind11 and CMake that they build for another platform; all
else is as in `pip install .` on a Mac.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from . import check_extension, fetch, sdk
from .paths import OLDEST_MACOS, ROOT, SOURCES, WORK

PLATFORM = f"macosx-{OLDEST_MACOS}-arm64"
EXTENSION = f".{sys.implementation.cache_tag}-darwin.so"
DIST = ROOT / "dist"
BUILD = WORK / "build"


def environment() -> dict[str, str]:
    """The variables that turn a build into a cross build."""
    return {
        **os.environ,
        "_PYTHON_HOST_PLATFORM": PLATFORM,  # what sysconfig.get_platform() says: the wheel's tag
        "SETUPTOOLS_EXT_SUFFIX": EXTENSION,  # how the extension is named; pybind11 reads it too
        "CMAKE_TOOLCHAIN_FILE": str(SOURCES / "toolchain.cmake"),
        "MPS_DS_BUILD": "metal",
        "MPS_DS_BUILD_DIR": str(BUILD),
    }


def build() -> Path:
    """Build the wheel into dist/ and return its path."""
    # setuptools would keep what an earlier build left in its folder.
    for left in (ROOT / "build").glob(f"*.{PLATFORM}*"):
        shutil.rmtree(left)
    hook = "from setuptools import build_meta; print(build_meta.build_wheel('dist'))"
    log = WORK / "wheel.log"
    with log.open("w") as output:
        done = subprocess.run([sys.executable, "-c", hook], cwd=ROOT, env=environment(),
                              stdout=output, stderr=subprocess.STDOUT)  # fmt: skip
    lines = log.read_text().splitlines()
    if done.returncode:
        sys.stderr.write("\n".join(lines[-80:]) + "\n")
        raise SystemExit(f"the build for macOS failed; all of its output is in {log}")
    return DIST / lines[-1]


def extract_extension(wheel: Path) -> Path:
    """Unpack the one native file that the wheel may have."""
    with zipfile.ZipFile(wheel) as content:
        native = [name for name in content.namelist() if name.endswith((".so", ".dylib", ".a"))]
        if native != [f"mps_ds/_C{EXTENSION}"]:
            raise SystemExit(f"{wheel.name} holds {native}; one native file, _C, is expected")
        return Path(content.extract(native[0], WORK / "unpacked"))


def make() -> None:
    """Fetch, build, check."""
    fetch.fetch()
    sdk.make()
    print("==> build for macOS", flush=True)
    wheel = build()
    problems = check_extension.check(extract_extension(wheel))
    for problem in problems:
        print(f"{wheel.name}: {problem}", file=sys.stderr)
    if problems:
        raise SystemExit(1)
    print(f"{wheel.relative_to(ROOT)}: {wheel.stat().st_size} bytes, checked")
