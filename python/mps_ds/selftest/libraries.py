"""What the facts about a machine mean for Lightning and DeepSpeed: notes, mps_ds works."""

from mps_ds.selftest.finding import Finding, Rule, release
from mps_ds.selftest.machine import Machine

LIGHTNING = (2, 6)
"""What mps_ds.lightning was written for."""
DEEPSPEED = ("0.19.6", "0.19.8")
"""The versions of mps_ds.deepspeed.replacements, which needs torch and DeepSpeed to be asked."""
_LIGHTNINGS = ("lightning", "pytorch-lightning")


def mps_disabled(machine: Machine) -> Finding | None:
    """Lightning's switch: with DISABLE_MPS=1 it reports no MPS device, whatever is there."""
    value = machine.environment.get("DISABLE_MPS", "0")
    if value in ("", "0"):
        return None
    if value == "1":
        problem = "DISABLE_MPS=1 is set: Lightning then takes the MPS device for absent."
    else:
        problem = (
            f"DISABLE_MPS={value} is set, which has no effect: Lightning takes the MPS device for "
            "absent with the value 1 only."
        )
    return Finding(
        "mps-disabled",
        problem,
        "Clear it with\n    unset DISABLE_MPS\nand remove it from your shell's start files.",
        fatal=False,
    )


def processor_unknown(machine: Machine) -> Finding | None:
    """Lightning tests platform.processor(), which some native Pythons leave empty."""
    if (
        machine.system != "Darwin"
        or machine.arch != "arm64"
        or machine.processor in ("arm", "arm64")
    ):
        return None
    return Finding(
        "processor-name",
        f"platform.processor() is {machine.processor!r} in this Python; Lightning looks for 'arm' "
        "and will say that this Mac has no MPS device.",
        "Keep /usr/bin on PATH (the name comes from `uname -p`), or use another build of Python.",
        fatal=False,
    )


def psutil_missing(machine: Machine) -> Finding | None:
    """Lightning trains without it, but its device stats raise at the first batch."""
    if "psutil" in machine.packages or not any(name in machine.packages for name in _LIGHTNINGS):
        return None
    return Finding(
        "psutil-missing",
        "psutil is not installed: training works, but Lightning's DeviceStatsMonitor raises "
        "ModuleNotFoundError at the first batch on MPS.",
        f"Install it with\n    {machine.executable} -m pip install psutil",
        fatal=False,
    )


def lightning_unsupported(machine: Machine) -> Finding | None:
    """Another Lightning than mps_ds.lightning was written for and is tested with."""
    for name in _LIGHTNINGS:
        version = machine.packages.get(name)
        if version is None or release(version) == LIGHTNING:
            continue
        supported = ".".join(str(part) for part in LIGHTNING)
        return Finding(
            "lightning-version",
            f"{name} {version} is installed; mps_ds.lightning is written for and tested with "
            f"{supported}.",
            f"Install it with\n    {machine.executable} -m pip install '{name}=={supported}.*'",
            fatal=False,
        )
    return None


def deepspeed_unsupported(machine: Machine) -> Finding | None:
    """Another DeepSpeed than those whose sources mps_ds.deepspeed knows."""
    version = machine.packages.get("deepspeed")
    if version is None or version.split("+")[0] in DEEPSPEED:
        return None
    return Finding(
        "deepspeed-version",
        f"DeepSpeed {version} is installed; mps_ds.deepspeed knows {' and '.join(DEEPSPEED)}. "
        "With others it leaves functions that it does not know as they are, or does not start.",
        "Install one with\n"
        f"    DS_BUILD_OPS=0 {machine.executable} -m pip install 'deepspeed=={DEEPSPEED[-1]}'",
        fatal=False,
    )


RULES: tuple[Rule, ...] = (
    mps_disabled,
    processor_unknown,
    psutil_missing,
    lightning_unsupported,
    deepspeed_unsupported,
)
