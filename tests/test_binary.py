"""The native library asks of PyTorch only what its stable ABI and <torch/mps.h> promise."""

import re
import shutil
import subprocess
import sys

import pytest

from mps_ds import _native

NM = shutil.which("nm")
WEAK = {"torch::mps::get_command_buffer", "torch::mps::get_dispatch_queue"}


@pytest.mark.skipif(NM is None, reason="needs nm")
def test_no_cpp_symbol_of_torch_but_weak_torch_mps():
    flags = ["-u", "-C"] if sys.platform == "darwin" else ["-D", "-u", "-C"]
    command = [NM, *flags, _native.C.__file__]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    symbols = [line.split(maxsplit=1) for line in lines if line.strip()]
    assert len(symbols) > 50
    of_torch = [
        (kind, name.split("(")[0])
        for kind, name in symbols
        if any(part in name for part in ("torch::", "at::", "c10::", "caffe2::"))
    ]
    assert {name for _, name in of_torch} <= WEAK
    assert all(kind == "w" for kind, _ in of_torch)


def test_messages_name_no_file_of_the_build():
    # But for .mm files: GCC's Objective-C runtime keeps the name of each.
    with open(_native.C.__file__, "rb") as file:
        binary = file.read()
    assert not re.findall(rb"\0(/[^\0]*\.(?:h|cpp|metal))\0", binary)
