"""Prints "ok PATH" if this Python can hold the environment, else why not. Runs on any Python 3.

Usage: check_python.py OLDEST_MINOR NEWEST_MINOR
"""

import os
import platform
import subprocess
import sys
import sysconfig


def apple_silicon():
    """Whether this Mac's hardware is arm64, whatever this Python was built for."""
    answer = subprocess.Popen(
        ["sysctl", "-n", "hw.optional.arm64"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ).communicate()[0]
    return answer.strip() == b"1"


def refusal(oldest, newest):
    """Why this Python cannot be used, or None."""
    version = ".".join(str(part) for part in sys.version_info[:2])
    if sys.version_info[0] != 3 or not oldest <= sys.version_info[1] <= newest:
        return f"it is Python {version}, needed is 3.{oldest} to 3.{newest}"
    if platform.python_implementation() != "CPython":
        return f"it is {platform.python_implementation()}, needed is CPython"
    if sys.maxsize < 2**32:
        return "it is a 32-bit Python"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "it is a free-threaded build"
    if sys.platform == "darwin" and platform.machine() != "arm64" and apple_silicon():
        return (
            "it is an Intel build that runs under Rosetta; Metal tensors need a native arm64 Python"
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError as error:
        return f"module {error.name} is missing (Debian and Ubuntu: python3-venv)"
    header = os.path.join(sysconfig.get_paths()["include"], "Python.h")
    if not os.path.exists(header):
        return f"{header} is missing (Debian and Ubuntu: python3-dev)"
    return None


if __name__ == "__main__":
    reason = refusal(int(sys.argv[1]), int(sys.argv[2]))
    if reason:
        print(reason)
        sys.exit(1)
    print("ok " + sys.executable)
