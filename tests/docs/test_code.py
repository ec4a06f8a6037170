"""Python code of pages for users runs as it stands, a page in one process, from top to bottom.

Not that of docs/huggingface.md, whose pieces are parts of a program of the reader's.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.backends.mps.is_available(), reason="no mps device")

ROOT = Path(__file__).resolve().parents[2]
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LAUNCHER = ["-m", "torch.distributed.run", "--nproc-per-node", "1"]
# Where a package is on PYTHONPATH and not installed, nothing has made the software device yet.
FIRST = "import mps_ds\n"


@pytest.mark.parametrize(
    ("page", "packages", "launcher"),
    [
        ("README.md", ["torch"], []),
        pytest.param(
            "docs/lightning.md",
            ["lightning", "pytorch_lightning", "deepspeed", "psutil"],
            [],
            marks=pytest.mark.slow,
        ),
        pytest.param("docs/deepspeed.md", ["deepspeed"], LAUNCHER, marks=pytest.mark.slow),
    ],
)
def test_a_page(page, packages, launcher, tmp_path) -> None:
    absent = [package for package in packages if importlib.util.find_spec(package) is None]
    if absent:
        pytest.skip(f"not installed: {', '.join(absent)}")
    pieces = PYTHON.findall((ROOT / page).read_text(encoding="utf-8"))
    assert pieces
    (tmp_path / "train.py").write_text(FIRST + "\n".join(pieces), encoding="utf-8")
    run = subprocess.run(
        [sys.executable, *launcher, "train.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-4000:]
