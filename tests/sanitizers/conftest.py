"""Programs and Python under sanitizers. All of these tests are slow; `make sanitize` runs them."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
BUILD = ROOT / "build" / "sanitize"
MSLC = ROOT / "third_party" / "softmetal" / "mslc"

# The device keeps what it has made until the process ends, so leaks are looked for by one program
# (test_device.py) and not in Python, which does the same.
OPTIONS = {
    # The device's own handler of faults runs on a stack of its own, and leaves it by a jump.
    "ASAN_OPTIONS": "use_sigaltstack=0:detect_stack_use_after_return=0:detect_leaks={leaks}",
    "LSAN_OPTIONS": f"suppressions={HERE / 'suppressions' / 'leaks.txt'}:print_suppressions=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": f"suppressions={HERE / 'suppressions' / 'threads.txt'}:halt_on_error=1",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.slow)


def build(kind: str) -> None:
    """Build one of the three; its output is shown where it fails."""
    environment = os.environ | {"PYTHON": sys.executable}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    command = [str(ROOT / "tools" / "sanitize.sh"), kind]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout[-8000:]}{done.stderr[-4000:]}"


def sanitized(leaks: bool = False) -> dict[str, str]:
    """The environment of a program under a sanitizer."""
    variables = {name: value.format(leaks=int(leaks)) for name, value in OPTIONS.items()}
    return os.environ | variables | {
        "SOFTMETAL_COMPILER": f"{sys.executable} {MSLC}",
        "SOFTMETAL_CACHE": str(BUILD / "cache"),
        "SOFTMETAL_THREADS": "4",  # more than there are cores: more interleavings
    }  # fmt: skip


Run = Callable[..., "subprocess.CompletedProcess[str]"]


def exercise(kind: str) -> Run:
    """`run(case, ...)`: the program of device_cases.mm and so on, built with a sanitizer."""
    build(kind)

    def run(*cases: str, leaks: bool = False) -> "subprocess.CompletedProcess[str]":
        command = [str(BUILD / kind / "exercise"), *cases]
        environment = sanitized(leaks)
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)

    return run


@pytest.fixture(scope="session")
def address() -> Run:
    """Under AddressSanitizer and UndefinedBehaviorSanitizer."""
    return exercise("address")


@pytest.fixture(scope="session")
def threads() -> Run:
    """Under ThreadSanitizer."""
    return exercise("thread")


@pytest.fixture(scope="session")
def python() -> Run:
    """`run(argument, ...)`: Python with the package built with both of the address sanitizers."""
    build("package")
    name, _, value = (BUILD / "environment").read_text().strip().partition("=")

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        environment = sanitized() | {name: value, "PYTHONPATH": str(BUILD / "stage")}
        environment |= {"MPS_DS_SOFT": "1", "OMP_NUM_THREADS": "1", "PYTHONMALLOC": "malloc"}
        command = [sys.executable, *arguments]
        return subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=900,
            cwd=ROOT / "tests",
        )

    return run
