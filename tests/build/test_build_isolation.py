"""`pip install .` as a user runs it: with build isolation, into an environment that has nothing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("setup.py", "pyproject.toml", "README.md", "LICENSE", "CMakeLists.txt")
FOLDERS = ("cmake", "csrc", "python", "third_party")


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Output of a command that sees neither the source tree nor this environment."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**environment, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["metal", "cpu"])
def test_pip_install_with_build_isolation(tmp_path: Path, kind: str) -> None:
    """pyproject.toml alone names what the build needs, and what the installed package needs."""
    tree = tmp_path / "source"
    tree.mkdir()
    for name in SOURCES:
        shutil.copy(ROOT / name, tree)
    generated = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, tree / name, ignore=generated)
    run(sys.executable, "-m", "venv", tmp_path / "env", cwd=tmp_path)
    python = tmp_path / "env" / "bin" / "python"

    # The pinned torch, so that a newer and larger one is not fetched; "torch" without it would do.
    run(
        *(python, "-m", "pip", "install", "--no-input", "torch==2.13.0", tree),
        cwd=tmp_path,
        MPS_DS_BUILD=kind,
    )

    check = (
        "import torch, mps_ds.ops as ops\n"
        "p, g, m, v = torch.ones(3), torch.ones(3), torch.zeros(3), torch.zeros(3)\n"
        "ops.adam_([p], [g], [m], [v], 1, lr=0.5)\n"
        "print(p.tolist())\n"
    )
    assert "[0.5, 0.5, 0.5]" in run(python, "-c", check, cwd=tmp_path, MPS_DS_SOFT="0")
    if kind == "metal":
        software = {} if sys.platform == "darwin" else {"MPS_DS_SOFT": "1"}
        run(python, "-m", "mps_ds.selftest", "--quick", cwd=tmp_path, **software)
