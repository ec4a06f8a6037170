"""Each machine that cannot work is told apart, and told what to do."""

from dataclasses import replace

import pytest

from mps_ds._soft_requirements import SoftwareDeviceError
from mps_ds.selftest import diagnosis, libraries, machine
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
    "a virtual mac": (
        replace(MAC, gpu_unsupported="this GPU has no Metal 3"),
        "gpu-unsupported",
        "this GPU has no Metal 3.",
        "Mac itself",
    ),
    "linux, device not asked for": (
        replace(LINUX, software=False, environment={}),
        "software-not-active",
        "only used when asked for",
        "MPS_DS_SOFT=1",
    ),
    "linux, device said to be off": (
        replace(LINUX, software=False, environment={"MPS_DS_SOFT": "False"}),
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
    "mps switched off for Lightning": (
        replace(MAC, environment={"DISABLE_MPS": "1"}),
        "mps-disabled",
        "Lightning then takes the MPS device for absent",
        "unset DISABLE_MPS",
    ),
    "a switch that does not switch": (
        replace(MAC, environment={"DISABLE_MPS": "true"}),
        "mps-disabled",
        "DISABLE_MPS=true is set, which has no effect",
        "unset DISABLE_MPS",
    ),
    "no limit of memory": (
        replace(MAC, environment={"PYTORCH_MPS_HIGH_WATERMARK_RATIO": "0.0"}),
        "memory-limit",
        "takes away PyTorch's limit",
        "unset PYTORCH_MPS_HIGH_WATERMARK_RATIO",
    ),
    "another limit of memory": (
        replace(MAC, environment={"PYTORCH_MPS_HIGH_WATERMARK_RATIO": "0.5"}),
        "memory-limit",
        "beyond 0.5 times the memory",
        "unset PYTORCH_MPS_HIGH_WATERMARK_RATIO",
    ),
    "a limit of memory that is no number": (
        replace(MAC, environment={"PYTORCH_MPS_HIGH_WATERMARK_RATIO": "half"}),
        "memory-limit",
        "=half is not a number",
        "unset PYTORCH_MPS_HIGH_WATERMARK_RATIO",
    ),
    "Lightning without psutil": (
        replace(MAC, packages={"lightning": "2.6.6"}),
        "psutil-missing",
        "DeviceStatsMonitor raises ModuleNotFoundError",
        "/opt/python -m pip install psutil",
    ),
    "old Lightning": (
        replace(MAC, packages={"pytorch-lightning": "2.5.6", "psutil": "7.2.2"}),
        "lightning-version",
        "pytorch-lightning 2.5.6 is installed; mps_ds.lightning is written for and tested with 2.6",
        "pip install 'pytorch-lightning==2.6.*'",
    ),
    "old DeepSpeed": (
        replace(MAC, packages={"deepspeed": "0.18.2"}),
        "deepspeed-version",
        "DeepSpeed 0.18.2 is installed; mps_ds.deepspeed knows 0.19.6 and 0.19.8",
        "DS_BUILD_OPS=0 /opt/python -m pip install 'deepspeed==0.19.8'",
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


def test_libraries_that_are_supported_are_not_mentioned() -> None:
    installed = {"lightning": "2.6.6", "pytorch-lightning": "2.6.0rc1", "psutil": "5.9.0"}
    for deepspeed in libraries.DEEPSPEED:
        found = diagnosis.diagnose(replace(MAC, packages={**installed, "deepspeed": deepspeed}))
        assert found == []


def test_the_versions_of_deepspeed_are_those_of_its_layer() -> None:
    pytest.importorskip("deepspeed")
    from mps_ds.deepspeed import replacements

    assert libraries.DEEPSPEED == replacements.SUPPORTED


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
