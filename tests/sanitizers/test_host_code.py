"""The package under AddressSanitizer and UBSan: operations, softmps and the device's bindings."""

import re

import pytest

# Tests of the package that go through native code, by what they exercise: all of its sources, in
# minutes and not in hours.
SUITES = {
    "operations": ["ops/test_adam.py", "ops/test_adam_errors.py", "ops/test_norms.py",
                   "ops/test_norm_errors.py", "ops/test_scaling.py", "ops/test_clip.py",
                   "optim/test_dispatch.py"],
    "softmps": ["softmps/test_tensors.py", "softmps/test_memory.py", "softmps/test_views.py",
                "softmps/test_stream.py", "softmps/test_errors.py", "softmps/test_shaders.py"],
    "softmetal": ["softmetal/test_device.py", "softmetal/test_checks_execution.py",
                  "softmetal/test_host_code.py"],
}  # fmt: skip

PLANTED = """
import ctypes, mps_ds.softmps, torch
torch.ones(3, device="mps").add_(1).cpu()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
block = libc.malloc(16)
libc.memset(ctypes.c_void_p(block), 0, 17)
"""


@pytest.mark.parametrize("suite", SUITES)
def test_suite(python, suite):
    """All of its tests pass, and no sanitizer reports anything."""
    # A sanitizer ends the process; only what Python itself prints is captured before that.
    options = ["-q", "-p", "no:cacheprovider", "-m", "not slow", "--capture=sys"]
    # AddressSanitizer keeps freed memory for a while: what is resident says nothing.
    options += ["--deselect", "tests/softmps/test_memory.py::test_steps_leak_nothing"]
    done = python("-m", "pytest", *options, *SUITES[suite])
    output = done.stdout + done.stderr
    assert done.returncode == 0, output[-8000:]
    assert "Sanitizer" not in output
    assert "runtime error" not in output
    assert re.search(r"\d+ passed", output)


def test_a_planted_overflow_is_reported(python):
    """One byte behind a block of the heap, in a Python process with everything loaded."""
    done = python("-c", PLANTED)
    assert done.returncode != 0
    assert "AddressSanitizer: heap-buffer-overflow" in done.stderr, done.stderr[-4000:]


def test_the_libraries_are_instrumented(python):
    """Each has calls of AddressSanitizer's and UBSan's in it."""
    code = """
import torch
import mps_ds._C, mps_ds.softmps._C, mps_ds.softmetal._C, pathlib
folder = pathlib.Path(mps_ds.softmetal._C.__file__).parent / "lib"
files = [m.__file__ for m in (mps_ds._C, mps_ds.softmps._C, mps_ds.softmetal._C)]
for file in [*files, *folder.glob("*.so")]:
    text = pathlib.Path(file).read_bytes()
    assert b"__asan_report_load8" in text and b"__ubsan_handle_" in text, file
print("instrumented:", len(files) + 1)
"""
    done = python("-c", code)
    assert done.stdout == "instrumented: 4\n", done.stdout + done.stderr[-4000:]
