"""What docs/add_a_kernel.md says compiles, runs, and passes the test that it shows."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mps_ds

pytestmark = pytest.mark.slow  # it compiles csrc

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "add_a_kernel.md").read_text("utf-8")
BLOCK = r":\n\n```\w+\n(.*?)^```$"
NEW_FILES = dict(re.findall(r"^\*\*(\S+)\*\*" + BLOCK, PAGE, re.MULTILINE | re.DOTALL))
ADDITIONS = dict(re.findall(r"^In \*\*(\S+)\*\*[^\n]*" + BLOCK, PAGE, re.MULTILINE | re.DOTALL))
# What an addition goes before.
PLACES = {
    "csrc/ops.cpp": "}\n\nSTABLE_TORCH_LIBRARY_IMPL(",
    "python/mps_ds/ops/__init__.py": "from .clip import",
}


def tool(name: str) -> str:
    """A program of this environment."""
    found = shutil.which(
        name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    )
    assert found, f"{name} is not installed"
    return found


def run(*command: str, **options) -> None:
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}:\n{done.stdout[-6000:]}\n{done.stderr[-3000:]}"


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """The sources with what the page adds."""
    tree = tmp_path_factory.mktemp("kernel") / "tree"
    folders = ["csrc", "cmake", "python", "third_party", "tests"]
    for folder in folders:
        shutil.copytree(ROOT / folder, tree / folder)
    for file in ("CMakeLists.txt", "pyproject.toml", ".clang-format"):
        shutil.copy(ROOT / file, tree)
    for path, text in NEW_FILES.items():
        assert not (tree / path).exists(), path
        (tree / path).write_text(text)
    for path, lines in ADDITIONS.items():
        before = (tree / path).read_text("utf-8")
        assert before.count(PLACES[path]) == 1, path
        (tree / path).write_text(before.replace(PLACES[path], f"{lines}{PLACES[path]}"))
    return tree


@pytest.fixture(scope="module")
def stage(tree) -> Path:
    """The package as it is installed, with the library and the Python sources of the tree."""
    build, stage = tree.parent / "build", tree.parent / "stage"
    shutil.copytree(Path(mps_ds.__file__).parent, stage / "mps_ds")
    run(
        tool("cmake"), "-S", str(tree), "-B", str(build), "-G", "Ninja",
        f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}", f"-DPython3_EXECUTABLE={sys.executable}",
    )  # fmt: skip
    run(tool("cmake"), "--build", str(build), "--target", "mps_ds_C")
    install = build / "csrc" / "cmake_install.cmake"
    run(tool("cmake"), f"-DCMAKE_INSTALL_PREFIX={stage}", "-P", str(install))
    shutil.copytree(tree / "python", stage, dirs_exist_ok=True)
    return stage


def test_five_places():
    assert [Path(path).name for path in NEW_FILES] == [
        "clamp_tables.h", "clamp.metal", "clamp.mm", "clamp.py", "test_clamp.py",
    ]  # fmt: skip
    assert set(ADDITIONS) == set(PLACES)


def test_the_code_is_as_lint_wants_it(tree):
    native = [path for path in NEW_FILES if not path.endswith(".py")]
    python = [path for path in NEW_FILES if path.endswith(".py")]
    kernels = [str(tree / path) for path in native if path.endswith(".metal")]
    run(tool("clang-format"), "--dry-run", "-Werror", *native, cwd=tree)
    run(sys.executable, str(ROOT / "tools" / "msl_lint"), *kernels)
    run(tool("ruff"), "check", "--no-cache", *python, cwd=tree)
    run(tool("ruff"), "format", "--no-cache", "--diff", *python, cwd=tree)


def test_its_test_passes(tree, stage):
    environment = {**os.environ, "PYTHONPATH": str(stage)}
    run(
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "ops/test_clamp.py",
        cwd=tree / "tests", env=environment,
    )  # fmt: skip
