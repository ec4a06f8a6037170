"""Every kernel of ours passes every check of tools/msl_lint."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KERNELS = sorted((ROOT / "csrc" / "mps" / "kernels").glob("*.metal"))


def test_there_are_kernels():
    assert KERNELS


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.name)
def test_a_kernel_is_clean(path):
    from msl_lint.lint import lint

    assert [str(problem) for problem in lint(path)] == []


def test_the_command_names_file_and_line_and_fails(tmp_path):
    path = tmp_path / "planted.metal"
    path.write_text("#include <metal_stdlib>\n#pragma clang fp contract(off)\nclass A : B {};\n")
    command = [sys.executable, ROOT / "tools" / "msl_lint", path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"{path}:3: derived classes are not supported in Metal: 'A'" in done.stdout


def test_the_command_without_files_takes_our_kernels():
    command = [sys.executable, ROOT / "tools" / "msl_lint"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
