"""tools/compile_shaders.sh asks the right compiler for the right thing, and believes its answers.

Apple's compiler is not here; a stand-in records what it is asked and answers as it is told to.
"""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "compile_shaders.sh"
KERNELS = {path.name for path in (SCRIPT.parents[1] / "csrc/mps/kernels").glob("*.metal")}


@pytest.fixture
def compile_shaders(tmp_path):
    """Runs the script with an `xcrun` that fails on arguments like `fails`, a shell pattern."""

    def run(fails, *files):
        xcrun = tmp_path / "xcrun"
        log = tmp_path / "log"
        log.write_text("")
        xcrun.write_text(
            f'#!/bin/sh\necho "$*" >>{log}\ncase "$*" in {fails}) echo wrong >&2; exit 1;; esac\n'
        )
        xcrun.chmod(0o755)
        done = subprocess.run(
            [SCRIPT, *files],
            env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
        )
        return done, log.read_text().splitlines()

    return run


def test_every_kernel_is_compiled_for_every_version(compile_shaders):
    done, calls = compile_shaders("never")
    assert done.returncode == 0, done.stderr
    for standard, macos in [("3.1", "14.0"), ("3.2", "15.0"), ("4.0", "26.0")]:
        own = [c for c in calls if f"-std=metal{standard} -mmacosx-version-min={macos}" in c]
        assert {Path(c.split(" -c ")[1].split()[0]).name for c in own} == KERNELS | {"empty.metal"}
    assert all("-sdk macosx metal" in c and "-fno-fast-math" in c for c in calls)
    # A warning about an option is no sign that there is no compiler.
    assert all(("-Werror" in c) is ("empty.metal" not in c) for c in calls)


def test_without_a_compiler_nothing_passes(compile_shaders):
    done, _ = compile_shaders("*")
    assert done.returncode == 3
    assert "Metal compiler is not here" in done.stderr
    assert "adam" not in done.stdout


def test_a_kernel_that_does_not_compile_fails(compile_shaders):
    done, _ = compile_shaders("*metal3.1*adam.metal*")
    assert done.returncode == 1
    assert "Metal 3.1: csrc/mps/kernels/adam.metal DOES NOT COMPILE" in done.stderr
    assert "Metal 3.2: csrc/mps/kernels/adam.metal" in done.stdout


def test_a_version_that_the_compiler_does_not_know_is_told_and_left_out(compile_shaders):
    done, _ = compile_shaders("*metal4.0*")
    assert done.returncode == 0
    assert "Metal 4.0: not known to this compiler" in done.stdout
