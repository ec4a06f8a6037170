"""Importing mps_ds: cheap, and without surprises."""

import os
import re
import site
import subprocess
import sys
from pathlib import Path

import pytest

LINUX = sys.platform != "darwin"


def python(code: str, **environment: str) -> str:
    """What a new process prints."""
    inherited = {k: v for k, v in os.environ.items() if k != "MPS_DS_SOFT"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_package_does_not_import_torch():
    assert python("import sys, mps_ds; print('torch' in sys.modules)") == "False"


@pytest.mark.skipif(not LINUX, reason="a Mac has its own device")
def test_the_operations_bring_no_device_with_them():
    code = "import torch, mps_ds.ops, mps_ds.optim; print(torch.backends.mps.is_available())"
    assert python(code) == "False"


HOOK_INSTALLED = any((Path(p) / "mps_ds_soft.pth").exists() for p in site.getsitepackages())
HAS_METAL = "from mps_ds._native import C; print(C.has_metal)"


@pytest.mark.skipif(not LINUX, reason="a Mac has its own device")
@pytest.mark.parametrize("first", ["import torch", "import mps_ds.ops"])
def test_the_variable_brings_the_device_to_a_process_and_its_children(first):
    if python(HAS_METAL) == "False":
        pytest.skip("no mps device in this build")
    if first == "import torch" and not HOOK_INSTALLED:
        pytest.skip("the start-up hook needs an installed package, not one on PYTHONPATH")
    ask = f"{first}; import torch; print(torch.ones(1, device='mps').device)"
    spawn = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {ask!r}], check=True)"
    assert python(ask, MPS_DS_SOFT="1") == "mps:0"
    assert python(spawn, MPS_DS_SOFT="1") == "mps:0"


OFF = [None, "", "0", "false", "False", "FALSE", " 0 "]
ON = ["1", "true", "force", "no"]
HOOKS = {"MPS_DS_SOFT": "_autosoft", "MPS_DS_DEEPSPEED": "_autodeepspeed"}


@pytest.mark.parametrize("value", [*OFF, *ON])
@pytest.mark.parametrize("variable", HOOKS)
def test_a_start_up_hook_reads_its_variable_as_the_package_does(tmp_path, variable, value):
    import mps_ds
    from mps_ds._environment import is_on

    hook = f"{variable.lower()}.pth"
    line = (Path(mps_ds.__file__).parents[1] / hook).read_text()
    (tmp_path / hook).write_text(line)
    (tmp_path / "mps_ds").mkdir()
    (tmp_path / "mps_ds" / "__init__.py").touch()
    (tmp_path / "mps_ds" / f"{HOOKS[variable]}.py").write_text("print('hook')")
    environment = {} if value is None else {variable: value}
    said = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import site; site.addsitedir({str(tmp_path)!r})"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stderr == ""
    assert said.stdout.split() == (["hook"] if value in ON else [])
    assert is_on(variable, environment) is (value in ON)


def test_a_variable_that_says_no_brings_nothing_to_a_package_on_pythonpath():
    code = "import sys, mps_ds; print([n for n in sys.modules if n.startswith('mps_ds._auto')])"
    assert python(code, MPS_DS_SOFT="false", MPS_DS_DEEPSPEED="") == "[]"


@pytest.mark.skipif(not LINUX, reason="a Mac has its own device")
def test_asking_for_torch_is_not_importing_it():
    code = (
        "import importlib.util as u, sys; u.find_spec('torch'); print('torch' in sys.modules);"
        "import torch, inspect; print('def' in inspect.getsource(torch.is_tensor))"
    )
    assert python(code, MPS_DS_SOFT="1").split() == ["False", "True"]


def test_device_info_names_a_software_device():
    if python(HAS_METAL) == "False":
        pytest.skip("no mps device in this build")
    import mps_ds

    info = mps_ds.device_info()
    assert info["software"] is LINUX
    assert ("software" in info["name"]) is LINUX
    assert info["max_threadgroup_memory_bytes"] >= 32768
    if LINUX:
        assert (info["metal3"], info["argument_buffers_tier"]) == (True, 2)


def test_unknown_attributes():
    import mps_ds

    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        mps_ds.nonsense  # noqa: B018


@pytest.mark.parametrize(
    "use", ["import mps_ds.ops", "from mps_ds.optim import FusedAdam", "mps_ds.device_info()"]
)
def test_without_torch_one_error_says_how_to_install_it(use):
    code = (
        "import sys; sys.modules['torch'] = None\n"
        f"import mps_ds\ntry:\n    {use}\n"
        "except ImportError as error: print(type(error).__name__, error)"
    )
    kind, message = python(code).split(" ", 1)
    assert kind == "ImportError"
    assert f"{sys.executable} -m pip install 'torch>=2.10'" in message


ROOT = Path(__file__).parents[1]


def test_the_readme_names_what_the_build_on_linux_needs():
    """The torch that pyproject.toml asks for, and the packages of the set-up."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    setup = (ROOT / "tools" / "setup" / "system.sh").read_text(encoding="utf-8")
    setup, _, only_for_tests = setup.partition("ensure_test_system()")
    assert only_for_tests
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    pinned = re.search(r'"torch==([\d.]+)[;"]', project)
    packages = re.findall(r'\|\| MISSING_PACKAGES\+=\("([^"]+)"\)', setup)
    assert pinned
    assert f"torch {pinned[1]} for the" in readme
    assert len(packages) >= 4
    assert [package for package in packages if package not in readme] == []
    assert "MPS_DS_SOFT=1 python -m mps_ds.selftest" in readme


def test_the_documentation_names_every_workflow():
    workflows = sorted(path.name for path in (ROOT / ".github" / "workflows").glob("*.yml"))
    text = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")
    assert workflows
    assert [name for name in workflows if f"`{name}`" not in text] == []


def test_helpers_of_the_tests_have_names_of_their_own():
    """Folders put themselves on the path: a helper would hide another one of its name."""
    helpers = [
        path.name
        for path in (ROOT / "tests").rglob("*.py")
        if not path.name.startswith("test_") and path.name not in ("conftest.py", "__init__.py")
    ]
    assert sorted(helpers) == sorted(set(helpers))
