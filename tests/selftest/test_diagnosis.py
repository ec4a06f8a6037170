"""Each machine that cannot work is told apart, and told what to do."""

from dataclasses import replace

import pytest

from mps_ds._soft_requirements import SoftwareDeviceError
from mps_ds.selftest import diagnosis, machine
from mps_ds.selftest.machine import Machine

MAC = Machine(
    macos="15.1",
    chip="Apple M2",
    executable="/opt/python",
    torch="2.13.0",
    mps_built=True,
    mps_available=True,
    native="/site/mps_ds/_C.so",
    native_metal=True,
)
LINUX = replace(
    MAC,
    system="Linux",
    arch="x86_64",
    processor="",
    macos=None,
    chip=None,
    apple_silicon=False,
    software=True,
    environment={"MPS_DS_SOFT": "1"},
)

OTHER_TORCH = SoftwareDeviceError("built for 2.12, this is 2.13.", "install torch==2.12")
INTEL_PYTHON = {"arch": "x86_64", "processor": "i386"}

# What differs from a machine that works: the finding, words of its problem and of its remedy.
FATAL = {
    "windows": (replace(MAC, system="Windows"), "operating-system", "Windows", "Mac"),
    "rosetta": (
        replace(MAC, **INTEL_PYTHON, translated=True, mps_available=False),
        "rosetta",
        "/opt/python",
        "brew install python",
    ),
    "rosetta, process not marked": (
        replace(MAC, **INTEL_PYTHON),
        "rosetta",
        "Intel build",
        "arm64",
    ),
    "intel mac": (
        replace(MAC, **INTEL_PYTHON, apple_silicon=False, chip="Intel(R) Core(TM) i7"),
        "intel-mac",
        "Intel(R) Core(TM) i7",
        "M1",
    ),
    "macos 13": (replace(MAC, macos="13.6.1"), "macos-too-old", "13.6.1", "Software Update"),
    "no torch": (
        replace(MAC, torch=None, mps_built=False, mps_available=False, native_metal=False),
        "torch-missing",
        "not installed",
        "/opt/python -m pip install torch",
    ),
    "broken torch": (
        replace(MAC, torch=None, torch_error="ImportError: no symbol f"),
        "torch-missing",
        "ImportError: no symbol f",
        "--force-reinstall torch",
    ),
    "old torch": (replace(MAC, torch="2.9.1"), "torch-too-old", "2.9.1", "torch>=2.10"),
    "no native library": (
        replace(MAC, native=None, native_metal=False),
        "native-missing",
        "not in this installation",
        "pip install",
    ),
    "native library does not load": (
        replace(MAC, native_metal=False, native_error="ImportError: no symbol g"),
        "native-missing",
        "ImportError: no symbol g",
        "pip install",
    ),
    "built for the CPU": (
        replace(MAC, native_metal=False),
        "native-missing",
        "MPS_DS_BUILD=cpu",
        "env -u MPS_DS_BUILD",
    ),
    "mps switched off": (
        replace(MAC, environment={"DISABLE_MPS": "1"}),
        "mps-disabled",
        "Lightning",
        "unset DISABLE_MPS",
    ),
    "torch without mps": (
        replace(MAC, mps_built=False, mps_available=False),
        "mps-not-built",
        "without MPS",
        "--force-reinstall torch",
    ),
    "virtual machine": (
        replace(MAC, mps_available=False),
        "mps-unavailable",
        "Virtual machines",
        "on the Mac itself",
    ),
    "linux, device not asked for": (
        replace(LINUX, software=False, environment={}),
        "software-not-active",
        "only used when asked for",
        "MPS_DS_SOFT=1",
    ),
    "linux, device did not start": (
        replace(LINUX, software=False),
        "software-not-active",
        "MPS_DS_SOFT=1 did not start it",
        "MPS_DS_SOFT=1",
    ),
    "linux, software device of another torch, not asked for": (
        replace(LINUX, software=False, software_refused=OTHER_TORCH, environment={}),
        "software-refused",
        "no Metal, and the software device cannot stand in for it. built for 2.12, this is 2.13.",
        "install torch==2.12",
    ),
    "linux, software device of another torch, asked for: torch's import is stopped": (
        replace(
            LINUX, torch=None, native_metal=False, software=False, software_refused=OTHER_TORCH
        ),
        "software-refused",
        "MPS_DS_SOFT=1 asks for the software device, which cannot start. built for 2.12",
        "install torch==2.12",
    ),
    "linux, no torch": (
        replace(LINUX, torch=None, native_metal=False, software=False, environment={}),
        "torch-missing",
        "not installed",
        "-m pip install torch",
    ),
    "linux, built for the CPU, device not asked for": (
        replace(
            LINUX,
            native_metal=False,
            software=False,
            software_refused=SoftwareDeviceError("not in this build.", "build it"),
            environment={},
        ),
        "native-missing",
        "MPS_DS_BUILD=cpu",
        "env -u MPS_DS_BUILD",
    ),
    "old torch, with which the native library does not load": (
        replace(MAC, torch="2.9.1", native_metal=False, native_error="needs PyTorch 2.10"),
        "torch-too-old",
        "2.9.1",
        "torch>=2.10",
    ),
}

NOTES = {
    "fallback": (
        replace(MAC, environment={"PYTORCH_ENABLE_MPS_FALLBACK": "1"}),
        "mps-fallback",
        "on the CPU",
        "unset PYTORCH_ENABLE_MPS_FALLBACK",
    ),
    "nameless processor": (replace(MAC, processor=""), "processor-name", "Lightning", "uname -p"),
    "forced software device": (
        replace(MAC, software=True, environment={"MPS_DS_SOFT": "force"}),
        "software-forced",
        "replaces this Mac's GPU",
        "unset MPS_DS_SOFT",
    ),
}


@pytest.mark.parametrize("fine", [MAC, LINUX], ids=["mac", "linux with the software device"])
def test_a_machine_that_works_has_no_findings(fine: Machine) -> None:
    assert diagnosis.diagnose(fine) == []


@pytest.mark.parametrize("case", [*FATAL, *NOTES])
def test_each_case_is_found_alone_and_says_what_to_do(case: str) -> None:
    given, name, problem, remedy = {**FATAL, **NOTES}[case]
    (found,) = diagnosis.diagnose(given)
    assert found.name == name
    assert found.fatal == (case in FATAL)
    assert problem in found.problem
    assert remedy in found.remedy


@pytest.mark.parametrize("value", ["0", ""])
def test_switches_that_are_set_to_off_are_off(value: str) -> None:
    off = {"DISABLE_MPS": value, "PYTORCH_ENABLE_MPS_FALLBACK": value}
    assert diagnosis.diagnose(replace(MAC, environment=off)) == []


@pytest.mark.parametrize(
    "version", ["2.10.0", "2.10.0a0+git1234", "2.13.0+cpu", "3.0.0", "2.15rc1"]
)
def test_versions_of_torch_that_serve(version: str) -> None:
    assert diagnosis.diagnose(replace(MAC, torch=version)) == []


def test_causes_come_before_consequences() -> None:
    broken = replace(MAC, macos="13.0", torch="2.4.0", mps_available=False)
    assert [found.name for found in diagnosis.diagnose(broken)] == [
        "macos-too-old",
        "torch-too-old",
        "mps-unavailable",
    ]


def test_every_rule_has_a_case() -> None:
    named = {case[1] for case in (*FATAL.values(), *NOTES.values())}
    silent = [
        rule.__name__
        for rule in diagnosis.RULES
        if not any(
            (found := rule(case[0])) and found.name in named for case in {**FATAL, **NOTES}.values()
        )
    ]
    assert silent == []


def test_facts_are_gathered_where_a_tool_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container without uname, sw_vers and sysctl."""
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(machine.platform, "system", lambda: "Darwin")
    gathered = machine.gather()
    assert gathered.chip is None
    assert not gathered.apple_silicon
