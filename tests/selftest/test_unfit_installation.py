"""Installations whose software device cannot start: one diagnosis, and torch is left whole."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mps_ds
from mps_ds import _soft_requirements as requirements
from mps_ds.selftest import __main__ as command

pytestmark = pytest.mark.skipif(
    sys.platform == "darwin" or requirements.built_for() is None,
    reason="no software device in this build",
)


def of_another_torch(package: Path) -> None:
    recorded = package / "softmps" / "built_for_torch.txt"
    recorded.unlink()
    recorded.write_text("2.12.0\n")


def without_device(package: Path) -> None:
    """What MPS_DS_BUILD=cpu leaves out of a build."""
    shutil.rmtree(package / "softmetal")
    for file in (*package.glob("softmps/_C.*"), package / "softmps" / "built_for_torch.txt"):
        file.unlink()


def with_broken_device(package: Path) -> None:
    for file in package.glob("softmps/_C.*"):
        file.unlink()
        file.write_bytes(b"not a library")


DEVICES = {
    of_another_torch: "built for PyTorch 2.12.0 and runs with no other; this is PyTorch 2.",
    without_device: "has no software MPS device: MPS_DS_BUILD=cpu leaves it out",
    with_broken_device: "does not load: ",
}


@pytest.fixture(params=DEVICES, ids=lambda change: change.__name__)
def unfit(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A copy of this installation with another device, and what is said of it."""
    package = tmp_path / "site" / "mps_ds"
    installed = Path(mps_ds.__file__).parent
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(installed, package, copy_function=os.symlink, ignore=skip)
    request.param(package)
    return package.parent, DEVICES[request.param]


def python(site: Path, *arguments: str, soft: str | None) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name != "MPS_DS_SOFT"}
    environment = inherited | {"PYTHONPATH": str(site)} | ({"MPS_DS_SOFT": soft} if soft else {})
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, cwd=site
    )


def test_importing_torch_says_the_same_each_time(unfit: tuple[Path, str]) -> None:
    """A second attempt is common, and must not meet what the first has left of torch."""
    site, said = unfit
    attempt = "try:\n    import torch\nexcept ImportError as error:\n    print(error)\n"
    done = python(site, "-c", f"import mps_ds\n{attempt}{attempt}", soft="1")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == second
    assert said in first
    assert "unset MPS_DS_SOFT" in first


def test_torch_is_whole_where_nobody_asks_for_the_device(unfit: tuple[Path, str]) -> None:
    site, _ = unfit
    done = python(site, "-c", "import mps_ds, torch; print(torch.ones(2).sum().item())", soft=None)
    assert done.stdout == "2.0\n", done.stderr


def test_the_self_test_says_it_once(unfit: tuple[Path, str], tmp_path: Path) -> None:
    site, said = unfit
    file = tmp_path / "report.json"
    done = python(site, "-m", "mps_ds.selftest", "--json", str(file), soft="1")
    assert (done.returncode, done.stderr) == (command.EXIT_CANNOT_WORK, "")
    (finding,) = json.loads(file.read_text())["findings"]
    assert finding["name"] == "software-refused"
    assert "MPS_DS_SOFT=1 asks" in finding["problem"]
    assert said in finding["problem"]
    assert "unset MPS_DS_SOFT" in finding["remedy"]
    assert "reinstall torch" not in finding["remedy"]


@pytest.mark.parametrize("unfit", [of_another_torch], indirect=True)
def test_a_device_of_another_torch_is_not_called_absent(
    unfit: tuple[Path, str], tmp_path: Path
) -> None:
    site, said = unfit
    file = tmp_path / "report.json"
    python(site, "-m", "mps_ds.selftest", "--json", str(file), soft=None)
    (finding,) = json.loads(file.read_text())["findings"]
    assert finding["name"] == "software-refused"
    assert said in finding["problem"]
    assert "torch==2.12.0" in finding["remedy"]
