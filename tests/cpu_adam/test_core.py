"""The core without torch: one executable, for this processor, under sanitizers, for arm64 on qemu.

core/ holds its tests: steps against float64, between guard pages, every type and every size from 0
to 130; conversions of every 16-bit value; layouts. Here they are built and run.
"""

import functools
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = Path(__file__).resolve().parent / "core"
SANITIZERS = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
LINUX_X86 = sys.platform == "linux" and platform.machine() == "x86_64"


def tool(*names: str) -> str:
    """The first of `names` that is beside this Python or on PATH."""
    for name in names:
        found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
        if found:
            return found
    pytest.fail(f"none of {', '.join(names)} is here; tools/setup.sh test installs what is missing")


def clang() -> str:
    return tool(*(f"clang++-{version}" for version in range(30, 15, -1)), "clang++")


def run(command: list[str | Path]) -> str:
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, f"{command}:\n{result.stdout[-2000:]}\n{result.stderr[-4000:]}"
    return result.stdout


def build(variant: str, compiler: str, *options: str) -> Path:
    """CMake's folder is kept, so that a second run compiles what has changed."""
    folder = ROOT / "build" / "cpu_adam_core" / variant
    ninja = f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"
    cxx = f"-DCMAKE_CXX_COMPILER={compiler}"
    run([tool("cmake"), "-S", CORE, "-B", folder, "-G", "Ninja", ninja, cxx, *options])
    run([tool("cmake"), "--build", folder])
    return folder / "core_test"


def parse(output: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in output.splitlines())


@functools.cache
def native() -> dict[str, str]:
    return parse(run([build("native", clang())]))


@functools.cache
def on_qemu() -> dict[str, str]:
    options = [
        "-DCMAKE_SYSTEM_NAME=Linux",
        "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
        "-DCMAKE_CXX_COMPILER_TARGET=aarch64-linux-gnu",
        "-DCMAKE_EXE_LINKER_FLAGS=-static",
    ]
    tool("aarch64-linux-gnu-g++")  # its library is what is linked
    qemu = tool("qemu-aarch64", "qemu-aarch64-static")
    return parse(run([qemu, build("arm64", clang(), *options)]))


def test_on_this_processor() -> None:
    found = native()
    assert found["backends"].split()[-1] == "scalar"
    assert int(found["checks"]) > 10_000_000


def test_the_backends_of_this_processor_are_found() -> None:
    flags = set()
    if LINUX_X86:
        line = next(x for x in Path("/proc/cpuinfo").read_text().splitlines() if "flags" in x)
        flags = set(line.split())
    want = ["avx512"] * ({"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= flags)
    want += ["avx2"] * ({"avx2", "fma", "f16c"} <= flags)
    want += ["neon"] * (platform.machine() in ("arm64", "aarch64"))
    assert native()["backends"].split() == [*want, "scalar"]


@pytest.mark.skipif(not LINUX_X86, reason="no choice at run time elsewhere")
@pytest.mark.parametrize("backend", ["avx2", "avx512"])
def test_a_processor_without_a_backend_never_runs_its_code(backend: str) -> None:
    native()
    (compiled,) = (ROOT / "build" / "cpu_adam_core" / "native").rglob(f"backend_{backend}.cpp.o")
    # What the linker may merge with a copy from another file would be compiled for this backend.
    symbols = [
        x.split(maxsplit=2) for x in run([tool("nm"), "--defined-only", compiled]).splitlines()
    ]
    assert len(symbols) > 5
    assert not [name for _, kind, name in symbols if kind in "WVu"]
    # And what asks whether the processor has it is compiled for every one.
    listing = run([tool("objdump"), "-d", "--no-show-raw-insn", compiled])
    body = listing.split("usable", 1)[1].split("\n\n", 1)[0]
    assert "ret" in body
    assert "cpuid" in body or "__cpu_model" in run([tool("nm"), compiled])
    assert not [line for line in body.splitlines() if "mm" in line]


def test_no_sanitizer_objects() -> None:
    # On Linux GCC, which comes with its sanitizers; clang's are a package of their own there.
    compiler = tool("g++") if sys.platform == "linux" else clang()
    options = f"-DCMAKE_CXX_FLAGS={SANITIZERS}", "-DCMAKE_BUILD_TYPE=None"
    assert parse(run([build("sanitized", compiler, *options)]))["digest"] == native()["digest"]


@pytest.mark.skipif(not LINUX_X86, reason="cross-compiles from x86-64 Linux")
def test_neon_on_qemu_stores_the_bits_of_this_processor() -> None:
    assert on_qemu()["backends"].split() == ["neon", "scalar"]
    assert on_qemu()["digest"] == native()["digest"]
