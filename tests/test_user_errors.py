"""What a new user meets when something is missing: each message says what to do.

The table in docs/troubleshooting.md lists these messages; a test below holds it to them.
"""

from __future__ import annotations

import platform
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


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
    monkeypatch.setattr(sys, "argv", ["setup.py", "--name"])
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "platform", facts.get("system", "darwin"))
    monkeypatch.setattr(sys, "version_info", facts.get("python", (3, 12, 1, "final", 0)))
    monkeypatch.setattr(platform, "machine", lambda: facts.get("machine", "arm64"))
    monkeypatch.setattr(platform, "mac_ver", lambda: (facts.get("macos", "15.1"), ("", "", ""), ""))
    with pytest.raises(SystemExit) as refused:
        runpy.run_path("setup.py", run_name="__main__")
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
