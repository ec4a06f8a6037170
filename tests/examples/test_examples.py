"""Each example runs as it stands, trains, and is short enough to be read."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mps_ds.selftest.training import Text

EXAMPLES = Path(__file__).parents[2] / "examples"
LIBRARY = {
    "plain_pytorch.py": "torch",
    "lightning_trainer.py": "lightning",
    "deepspeed_zero2.py": "deepspeed",
    "transformers_trainer.py": "transformers",
}
LINES = 60
STARTS_THE_HOOK = """
import os
if os.environ.get("MPS_DS_SOFT", "0") != "0":
    import mps_ds._autosoft
"""


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == LIBRARY.keys()


@pytest.mark.parametrize("name", LIBRARY)
def test_an_example_is_short(name) -> None:
    assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) < LINES


@pytest.mark.parametrize("name", LIBRARY)
def test_the_readme_has_the_command_that_the_example_names(name) -> None:
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert " ".join(["python", *command(name)]) in readme


@pytest.mark.parametrize("name", LIBRARY)
def test_an_example_trains(name, tmp_path) -> None:
    losses = run(name, tmp_path)
    assert losses[-1] < losses[0]
    # Less than a model can reach that knows how frequent each character is, and nothing else.
    assert losses[-1] < Text().letter_entropy()


def command(name: str) -> list[str]:
    """What follows `python` in the last line of the example's docstring."""
    docstring = (EXAMPLES / name).read_text(encoding="utf-8").split('"""')[1]
    return docstring.strip().splitlines()[-1].removeprefix("python ").split()


def run(name: str, folder: Path) -> list[float]:
    """The losses that an example prints, run with the command of its docstring."""
    found = importlib.util.find_spec(LIBRARY[name])
    if found is None or found.origin is None:  # a folder of tests alone has that name too
        pytest.skip(f"{LIBRARY[name]} is not installed")
    if not torch.backends.mps.is_available():
        pytest.skip("no mps device in this build")
    (folder / "examples").symlink_to(EXAMPLES)  # so that what an example writes lands in `folder`
    # Where the package is on PYTHONPATH only, Python does not read its start-up hook.
    (folder / "sitecustomize.py").write_text(STARTS_THE_HOOK)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("DS_", "MPS_DS_DEEP"))}
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), *filter(None, sys.path)])
    environment["HF_HUB_OFFLINE"] = "1"
    if sys.platform != "darwin":
        environment["MPS_DS_SOFT"] = "1"
    done = subprocess.run(
        [sys.executable, *command(name)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return [float(loss) for loss in re.findall(r"\bloss'?:? '?(\d+\.\d+)", done.stdout)]
