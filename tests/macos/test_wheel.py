"""The wheel for macOS holds what a Mac needs and nothing of this machine; pip takes it there."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PYTHON = f"{sys.version_info.major}{sys.version_info.minor}"


def test_name(wheel):
    assert re.fullmatch(rf"mps_ds-[\d.]+-cp{PYTHON}-cp{PYTHON}-macosx_14_0_arm64\.whl", wheel.name)


def test_holds_the_extension_and_the_package_alone(wheel):
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
    native = [name for name in names if not name.endswith((".py", ".pyi", ".txt"))]
    info = {name for name in native if ".dist-info/" in name}
    assert set(native) - info == {
        f"mps_ds/_C.cpython-{PYTHON}-darwin.so",
        "mps_ds_deepspeed.pth",
        "mps_ds_soft.pth",
    }
    sources = Path(__file__).resolve().parents[2] / "python"
    python = {str(path.relative_to(sources)) for path in (sources / "mps_ds").rglob("*.py")}
    assert python <= set(names)


@pytest.mark.parametrize(("macos", "accepted"), [("14_0", True), ("26_0", True), ("13_0", False)])
def test_pip_installs_it_from_macos_14_on(wheel, macos, accepted, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--no-deps", "--only-binary=:all:", "--quiet",
         "--platform", f"macosx_{macos}_arm64", "--target", str(tmp_path / "site"), str(wheel)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode == 0) == accepted, done.stderr
    assert accepted or "is not a supported wheel" in done.stderr


@pytest.mark.parametrize(
    ("package", "messages"),
    [
        ("softmetal", ["ImportError: mps_ds.softmetal was not built", "Linux only"]),
        ("softmps", ["This build of mps_ds has no software MPS device", "on Linux only"]),
    ],
)
def test_stand_ins_say_that_they_are_not_there(wheel, package, messages, tmp_path):
    with zipfile.ZipFile(wheel) as content:
        content.extractall(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "MPS_DS_SOFT": "0"}
    done = subprocess.run(
        [sys.executable, "-c", f"import mps_ds.{package} as package; print(package.__file__)"],
        env=environment, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert all(message in done.stderr for message in messages), done.stderr


def test_no_header_of_this_machine_is_read(wheel):
    from macos import paths
    from macos.wheel import BUILD

    listed = subprocess.run(
        ["ninja", "-t", "deps"], cwd=BUILD, capture_output=True, text=True, check=True
    )
    read = {(BUILD / line.strip()).resolve() for line in listed.stdout.splitlines()
            if line.startswith("    ")}  # fmt: skip
    assert any(path.name == "Metal.h" for path in read)
    assert [path for path in read if path.name == "pyconfig.h"] == [
        paths.SOURCES / "python" / "pyconfig.h"
    ]
    stand_ins = paths.METAL_HEADERS.parent
    foreign = [
        path
        for path in read
        if path.is_relative_to("/usr/include")
        or (path.is_relative_to(stand_ins) and not path.is_relative_to(paths.METAL_HEADERS))
    ]
    assert foreign == []


def test_sizes_in_pyconfig_are_the_target_s(sdk):
    from macos.paths import SOURCES, tool

    source = Path(__file__).with_name("pyconfig_sizes.c")
    command = [tool("clang"), "-target", "arm64-apple-macos14.0", "-isysroot", str(sdk),
               "-I", str(SOURCES / "python"), "-fsyntax-only", str(source)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
