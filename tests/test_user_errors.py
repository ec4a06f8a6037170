"""What a new user meets when something is missing: each message says what to do.

The table in docs/troubleshooting.md lists these messages; a test below holds it to them.
"""

from __future__ import annotations

import os
import platform
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import mps_ds
from mps_ds import _native
from mps_ds._soft_requirements import built_for, why_not
from mps_ds.optim import FusedAdam
from mps_ds.selftest.explain import MESSAGES, explain

ROOT = Path(__file__).resolve().parents[1]
needs_mps = pytest.mark.skipif(
    not torch.backends.mps.is_available(), reason="no mps device in this build"
)


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own, which has to end well."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done


def explained(said: object) -> list[str]:
    """The words by which `mps_ds.selftest --explain` and the table in docs know a message."""
    return [message.words for message in explain(str(said))]


# --- pip install . -------------------------------------------------------------------------------

ARM_MAC = {"sys_platform": "darwin", "platform_machine": "arm64", "python_version": "3.12"}
MACOS_14 = "Darwin Kernel Version 23.6.0: Mon Jul 29 21:14:30 PDT 2024; root:xnu-10063"
MACOS_13 = "Darwin Kernel Version 22.6.0: Mon Jun 24 01:25:37 PDT 2024; root:xnu-8796"
CAN_BUILD: list[dict[str, str]] = [
    {"sys_platform": "linux", "platform_machine": "x86_64", "python_version": "3.10"},
    {"sys_platform": "linux", "platform_machine": "aarch64", "python_version": "3.14"},
    {**ARM_MAC, "platform_version": MACOS_14},
]
CANNOT_BUILD: list[dict[str, str]] = [
    {"sys_platform": "linux", "platform_machine": "x86_64", "python_version": "3.9"},
    {**ARM_MAC, "platform_version": MACOS_14, "python_version": "3.9"},
    {**ARM_MAC, "platform_version": MACOS_13},
    {**ARM_MAC, "platform_version": MACOS_14, "platform_machine": "x86_64"},
    {"sys_platform": "win32", "platform_machine": "AMD64", "python_version": "3.12"},
]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib came with Python 3.11")
@pytest.mark.parametrize("environment", [*CAN_BUILD, *CANNOT_BUILD], ids=str)
def test_pip_looks_for_torch_only_where_the_build_can_succeed(environment) -> None:
    """Elsewhere it would say "No matching distribution found for torch" instead of our reason."""
    import tomllib

    packaging = pytest.importorskip("packaging.requirements")
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    (torch,) = (r for r in map(packaging.Requirement, requires) if r.name == "torch")
    assert torch.marker.evaluate({"platform_version": "", **environment}) == (
        environment in CAN_BUILD
    )


def run_setup(monkeypatch: pytest.MonkeyPatch, **facts: Any) -> str:
    """What setup.py says to a machine with these facts, when it is asked for the name alone."""
    for module in ("setuptools.command.build_ext", "setuptools.command.build_py"):
        pytest.importorskip(module)  # they look at this machine's real facts
    monkeypatch.setattr(sys, "argv", ["setup.py", "--name"])
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "platform", facts.get("system", "darwin"))
    monkeypatch.setattr(sys, "version_info", facts.get("python", (3, 12, 1, "final", 0)))
    monkeypatch.setattr(platform, "machine", lambda: facts.get("machine", "arm64"))
    monkeypatch.setattr(platform, "mac_ver", lambda: (facts.get("macos", "15.1"), ("", "", ""), ""))
    with pytest.raises(SystemExit) as refused:
        runpy.run_path("setup.py", run_name="__main__")
    assert len(explained(refused.value)) == (facts.get("system", "darwin") != "win32")
    return str(refused.value)


def test_setup_refuses_an_old_python(monkeypatch) -> None:
    said = run_setup(monkeypatch, python=(3, 9, 18, "final", 0), system="linux")
    assert said.startswith("mps_ds needs Python 3.10 or later; this is Python ")
    assert "-m venv" in said


def test_setup_refuses_rosetta(monkeypatch) -> None:
    said = run_setup(monkeypatch, machine="x86_64")
    assert "needs Apple Silicon and a native arm64 Python; this Python is x86_64" in said
    assert "it runs under Rosetta" in said
    assert "brew install python" in said


def test_setup_refuses_an_old_macos(monkeypatch) -> None:
    said = run_setup(monkeypatch, macos="13.6.1")
    assert "needs macOS 14 or later" in said
    assert "this is macOS 13.6.1" in said
    assert "Software Update" in said


def test_setup_refuses_other_systems(monkeypatch) -> None:
    assert "not on win32" in run_setup(monkeypatch, system="win32")


# --- import mps_ds -------------------------------------------------------------------------------


def test_an_old_python_is_told_by_the_package_itself(monkeypatch) -> None:
    """Where it was not installed by pip: on PYTHONPATH, or in the source folder."""
    monkeypatch.setattr(sys, "version_info", (3, 9, 18, "final", 0))
    with pytest.raises(ImportError, match=r"mps_ds needs Python 3\.10") as error:
        runpy.run_path(str(Path(mps_ds.__file__)))
    assert explained(error.value) == ["mps_ds needs Python 3.10"]


def test_an_old_torch(monkeypatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.9.1+cpu")
    with pytest.raises(ImportError, match=r"found 2\.9\.1\+cpu") as error:
        _native._load()
    assert "pip install 'torch>=2.10'" in str(error.value)
    assert explained(error.value) == ["mps_ds needs PyTorch 2.10"]


def test_no_torch(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="none is installed for this Python") as error:
        runpy.run_path(str(Path(mps_ds.__file__).with_name("_needs_torch.py")))
    assert f"{sys.executable} -m pip install 'torch>=2.10'" in str(error.value)
    assert explained(error.value) == ["mps_ds needs PyTorch 2.10"]


def test_no_advice_that_rosetta_cannot_follow(monkeypatch) -> None:
    """The newest PyTorch for Intel Macs is 2.2: pip finds no other there."""
    monkeypatch.setattr(torch, "__version__", "2.2.2")
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    with pytest.raises(ImportError, match=r"found 2\.2\.2.*Rosetta.*mps_ds\.selftest") as error:
        _native._load()
    assert "pip install" not in str(error.value)


@pytest.fixture
def without_library(tmp_path: Path) -> Path:
    """A copy of the installed package that lacks its native library."""
    package = tmp_path / "site" / "mps_ds"
    shutil.copytree(
        Path(mps_ds.__file__).parent,
        package,
        copy_function=os.symlink,
        ignore=shutil.ignore_patterns("__pycache__", "_C.*", "softm*"),
    )
    return package


def load_from(package: Path) -> str:
    """What a new process says that imports the operations of that copy."""
    done = subprocess.run(
        [sys.executable, "-c", "import mps_ds.ops"],
        env={**os.environ, "PYTHONPATH": str(package.parent), "MPS_DS_SOFT": "0"},
        cwd=package.parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


def test_no_native_library(without_library) -> None:
    said = load_from(without_library)
    assert said.startswith("ImportError: mps_ds was installed without its native library.")
    assert "python -m pip install ." in said
    assert explained(said) == ["installed without its native library"]


def test_a_native_library_of_another_machine(without_library) -> None:
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    (without_library / f"_C{suffix}").write_bytes(b"made for something else")
    said = load_from(without_library)
    assert said.startswith("ImportError: mps_ds: its native library does not load: ")
    assert "python -m mps_ds.selftest" in said
    assert explained(said) == ["mps_ds: its native library does not load"]


# --- a build or a process without the device -----------------------------------------------------

# The real library, told as the one of MPS_DS_BUILD=cpu, which registers nothing for mps either.
WITHOUT_METAL = """
import importlib, sys, types, warnings
import mps_ds, torch
torch.ones(1, device="mps")
library = importlib.import_module("mps_ds._C")
told = types.SimpleNamespace(**{**vars(library), "has_metal": False})
sys.modules["mps_ds._C"] = told
warnings.simplefilter("ignore")  # of PyTorch: kernels that the real library has are replaced
from mps_ds import ops
from mps_ds.optim import FusedAdam

def step(device):
    p = torch.nn.Parameter(torch.ones(3, device=device))
    p.grad = torch.ones_like(p)
    FusedAdam([p], lr=0.5, weight_decay=0.0).step()
    return p.tolist()

print(step("cpu"))
for use in (lambda: step("mps"), lambda: ops.multi_tensor_l2norm([torch.ones(3, device="mps")]),
            mps_ds.device_info):
    try:
        print("worked", use())
    except RuntimeError as error:
        print(error)
"""


@needs_mps
def test_a_build_without_metal_says_so_at_the_first_use_on_mps() -> None:
    """And not, as PyTorch would, that MPS lacks an operator, and to try its fallback."""
    cpu, *refused = run(WITHOUT_METAL, MPS_DS_SOFT="1").stdout.splitlines()
    assert cpu == "[0.5, 0.5, 0.5]"
    assert len(refused) == 3
    for said in refused:
        assert "this build of mps_ds has no Metal operations (MPS_DS_BUILD=cpu)" in said
        assert "env -u MPS_DS_BUILD python -m pip install --force-reinstall" in said
        assert explained(said) == ["this build of mps_ds has no Metal operations"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac has the device")
def test_linux_without_the_variable_has_no_mps() -> None:
    code = (
        "import torch, mps_ds.optim\n"
        "try: torch.nn.Linear(2, 2).to('mps')\n"
        "except RuntimeError as error: print(error)\n"
    )
    said = run(code, MPS_DS_SOFT="0").stdout
    assert explained(said) == ["PyTorch is not linked with support for mps devices"]


@needs_mps
def test_an_operator_that_mps_lacks() -> None:
    with pytest.raises(NotImplementedError) as error:
        torch.tensor([1, 2, 2], device="mps").mode()
    assert explained(error.value) == ["is not currently implemented for the MPS device"]


@pytest.mark.skipif(built_for() is None, reason="no software device in this build")
def test_a_software_device_of_another_torch() -> None:
    said = why_not("2.12.0")
    assert explained(said) == ["The software MPS device was built for PyTorch"]
    assert f"torch=={built_for()}" in str(said)


def test_deepspeed_without_a_device(monkeypatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(RuntimeError) as error:
        mps_ds.deepspeed.enable()
    assert explained(error.value) == ["mps_ds.deepspeed: there is no mps device"]


@needs_mps
def test_another_deepspeed(monkeypatch) -> None:
    """One that lacks what the layer needs, and one with functions of other source."""
    deepspeed = pytest.importorskip("deepspeed")
    from mps_ds.deepspeed import bindings, replacements

    def lacks(undo: object) -> None:
        raise TypeError("Can't instantiate abstract class")

    monkeypatch.setattr(deepspeed, "__version__", "0.18.2")
    monkeypatch.setattr(bindings, "rebind", lacks)
    with pytest.raises(RuntimeError, match=r"DeepSpeed 0\.18\.2 .* install deepspeed==") as error:
        mps_ds.deepspeed.enable()
    assert explained(error.value) == ["is too old or too new for this package"]
    assert not mps_ds.deepspeed.is_enabled()
    with pytest.warns(UserWarning, match="own stays in place of: some.function") as warned:
        replacements.complain("0.19.7", ["some.function"])
    assert explained(warned[0].message) == ["differs from the versions this was written for"]


# --- out of memory, fork -------------------------------------------------------------------------


@pytest.fixture
def little_memory() -> Iterator[Callable[[int], None]]:
    """Limits what this process may have on mps to so many bytes beyond what it has."""

    def limit(bytes_more: int) -> None:
        allowed = torch.mps.current_allocated_memory() + bytes_more
        torch.mps.set_per_process_memory_fraction(allowed / torch.mps.recommended_max_memory())

    yield limit
    torch.mps.set_per_process_memory_fraction(1.7)  # PyTorch's own


@needs_mps
def test_a_step_that_finds_no_memory_changes_nothing_and_can_be_repeated(little_memory) -> None:
    size = 1 << 20
    start = torch.linspace(-1, 1, size)
    params = [torch.nn.Parameter(start.to(device)) for device in ("mps", "cpu")]
    optimizers = [FusedAdam([p], lr=0.1) for p in params]
    for p in params:
        p.grad = torch.ones_like(p)
    torch.mps.empty_cache()

    little_memory(size)  # the states need 8 bytes an element
    with pytest.raises(RuntimeError, match="MPS backend out of memory") as error:
        optimizers[0].step()
    assert explained(error.value) == ["out of memory"]
    assert torch.equal(params[0].cpu(), start)

    torch.mps.set_per_process_memory_fraction(1.7)
    for optimizer in optimizers:
        for _ in range(2):
            optimizer.step()
    assert torch.equal(params[0].cpu(), params[1])
    steps = [float(o.state[p]["step"]) for o, p in zip(optimizers, params, strict=True)]
    assert steps == [2, 2]


@needs_mps
def test_a_clipped_step_that_finds_no_memory_for_the_norm(little_memory) -> None:
    """PyTorch's message is lost on its way through the stable ABI: it says what it was about."""
    p = torch.nn.Parameter(torch.ones(1000, device="mps"))
    p.grad = torch.ones_like(p)
    optimizer = FusedAdam([p], lr=0.1)
    optimizer.step(max_norm=1.0)
    before = p.tolist()
    torch.mps.empty_cache()

    little_memory(0)
    with pytest.raises(RuntimeError, match="mps is out of memory: PyTorch could not") as error:
        optimizer.step(max_norm=1.0)
    assert explained(error.value) == ["out of memory"]
    torch.mps.set_per_process_memory_fraction(1.7)
    assert p.tolist() == before
    assert float(optimizer.state[p]["step"]) == 1


IN_CHILDREN = """
import os
import mps_ds, torch
from torch.utils.data import DataLoader, Dataset

class Made(Dataset):
    def __init__(self, device):
        self.device = device
    def __len__(self):
        return 2
    def __getitem__(self, index):
        return torch.full((2,), float(index), device=self.device)

def step(p):
    from mps_ds.optim import FusedAdam
    p.grad = torch.ones_like(p)
    FusedAdam([p], lr=0.5, weight_decay=0.0).step()
    return p.tolist()

def attempt(function):
    try:
        print(function(), flush=True)
    except RuntimeError as error:
        print(" ".join(str(error).split()), flush=True)

p = torch.nn.Parameter(torch.ones(2, device="mps"))
child = os.fork()
if child == 0:
    attempt(lambda: step(torch.nn.Parameter(torch.ones(2))))
    attempt(lambda: step(p))
    os._exit(0)
os.waitpid(child, 0)
attempt(lambda: step(p))
for device in ("cpu", "mps"):
    loader = DataLoader(Made(device), num_workers=1, multiprocessing_context="fork")
    attempt(lambda: [batch.to("mps").tolist() for batch in loader])
"""


@needs_mps
@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac hangs where the software device raises")
def test_a_forked_process_may_import_and_work_on_the_cpu_and_is_told_about_mps() -> None:
    """A fork that imports mps_ds after the parent has used mps, and a data loader's workers."""
    lines = run(IN_CHILDREN, MPS_DS_SOFT="1").stdout.splitlines()
    child_cpu, child_mps, parent_mps, worker_cpu, worker_mps = lines
    assert child_cpu == parent_mps == "[0.5, 0.5]"
    assert worker_cpu == "[[[0.0, 0.0]], [[1.0, 1.0]]]"
    for said in (child_mps, worker_mps):
        assert "use spawn" in said
        assert explained(said) == ["MPS was initialised before fork"]


# --- the table -----------------------------------------------------------------------------------


def test_the_page_has_the_table_of_the_self_test() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.+?)` \| (.+?) \| (.+?) \|$", page, re.MULTILINE)
    in_table = [(message.words, message.cause, message.remedy) for message in MESSAGES]
    assert rows == in_table


def test_a_message_that_is_not_known_explains_nothing() -> None:
    assert explained("IndexError: list index out of range") == []
