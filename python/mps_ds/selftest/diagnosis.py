"""What the facts about a machine mean: a machine that cannot work, why, and what to do.

Every rule is a pure function of a `Machine`, so tests feed each case. Rules run in order, and the
order is that of cause: a Rosetta Python explains a missing MPS device, not the other way round.
"""

from mps_ds._environment import is_on
from mps_ds.selftest import libraries
from mps_ds.selftest.finding import Finding as Finding
from mps_ds.selftest.finding import Rule, release
from mps_ds.selftest.machine import Machine

OLDEST_MACOS = 14
OLDEST_TORCH = (2, 10)


def operating_system(machine: Machine) -> Finding | None:
    """Only macOS has Metal, only Linux has the software device."""
    if machine.system in ("Darwin", "Linux"):
        return None
    return Finding(
        "operating-system",
        f"mps_ds runs on macOS, and on Linux with a software device; this is {machine.system}.",
        "Use a Mac with Apple silicon.",
    )


def rosetta(machine: Machine) -> Finding | None:
    """An x86_64 Python on an arm Mac: it runs, but sees no Metal tensors."""
    if machine.system != "Darwin" or machine.arch == "arm64":
        return None
    if not (machine.translated or machine.apple_silicon):
        return None
    return Finding(
        "rosetta",
        f"this Python ({machine.executable}) is an Intel build ({machine.arch}) that runs under "
        "Rosetta on an Apple silicon Mac. PyTorch's MPS device does not exist there.",
        "Use a native arm64 Python, for example\n"
        "    brew install python@3.12\n"
        "(from a Homebrew below /opt/homebrew; one below /usr/local is itself the Intel build),\n"
        "or Miniforge for arm64. If `arch` prints i386, the terminal itself runs under Rosetta:\n"
        'clear "Open using Rosetta" in its Finder info. Then make the environment anew.',
    )


def intel_mac(machine: Machine) -> Finding | None:
    """A Mac without Apple silicon."""
    if machine.system != "Darwin" or machine.apple_silicon or machine.arch == "arm64":
        return None
    return Finding(
        "intel-mac",
        f"this Mac ({machine.chip or machine.arch}) has no Apple silicon, which the kernels need.",
        "Use a Mac with an M1 or later.",
    )


def macos_too_old(machine: Machine) -> Finding | None:
    """Metal 3.1, and with it bfloat, came with macOS 14."""
    if machine.system != "Darwin" or machine.macos is None:
        return None
    if int(machine.macos.split(".")[0]) >= OLDEST_MACOS:
        return None
    return Finding(
        "macos-too-old",
        f"this is macOS {machine.macos}; bfloat16 and Metal 3.1 need {OLDEST_MACOS} or later.",
        "Update macOS: System Settings > General > Software Update.",
    )


def torch_missing(machine: Machine) -> Finding | None:
    """PyTorch is absent, or its import fails."""
    if machine.torch is not None or machine.software_refused is not None:
        return None
    if machine.torch_error is not None:
        problem = f"PyTorch is installed, but importing it fails: {machine.torch_error}"
        install = "install --force-reinstall torch"
    else:
        problem = f"PyTorch is not installed for this Python ({machine.executable})."
        install = "install torch"
    return Finding(
        "torch-missing", problem, f"Install it with\n    {machine.executable} -m pip {install}"
    )


def torch_too_old(machine: Machine) -> Finding | None:
    """The stable operator library that the package is built on came with 2.10."""
    if machine.torch is None or release(machine.torch) >= OLDEST_TORCH:
        return None
    needed = ".".join(str(part) for part in OLDEST_TORCH)
    return Finding(
        "torch-too-old",
        f"this is PyTorch {machine.torch}; mps_ds needs {needed} or later.",
        f"Update it with\n    {machine.executable} -m pip install --upgrade 'torch>={needed}'",
    )


def native_missing(machine: Machine) -> Finding | None:
    """No native library, one that does not load, or one without its Metal half."""
    if machine.native is not None and machine.native_metal:
        return None
    if machine.native is not None and (machine.torch is None or torch_too_old(machine)):
        return None  # it cannot be loaded without that: nothing is known of it yet
    if machine.native_error is not None:
        problem = f"the native library of mps_ds does not load: {machine.native_error}"
    elif machine.native is None:
        problem = "the native library of mps_ds is not in this installation."
    else:
        problem = (
            "mps_ds was built with MPS_DS_BUILD=cpu, which leaves out everything that needs Metal."
        )
    return Finding(
        "native-missing",
        problem,
        "Build it from the source tree with\n"
        "    env -u MPS_DS_BUILD "
        f"{machine.executable} -m pip install --force-reinstall --no-deps .",
    )


def software_refused(machine: Machine) -> Finding | None:
    """The software device cannot start: not in this build, or built for another PyTorch."""
    refused = machine.software_refused
    if refused is None:
        return None
    if is_on("MPS_DS_SOFT", machine.environment):
        asked = machine.environment["MPS_DS_SOFT"]
        why = f"MPS_DS_SOFT={asked} asks for the software device, which cannot start."
    elif native_missing(machine):
        return None  # the build that this asks for brings the device too
    else:
        why = "this machine has no Metal, and the software device cannot stand in for it."
    return Finding("software-refused", f"{why} {refused.problem}", refused.remedy)


def software_not_asked_for(machine: Machine) -> Finding | None:
    """Linux: the software device is there, but never chosen by surprise."""
    if machine.system != "Linux" or machine.software:
        return None
    if machine.torch is None or machine.software_refused is not None:
        return None  # it comes with torch, and there is more to say than that nobody asked
    asked = machine.environment.get("MPS_DS_SOFT")
    return Finding(
        "software-not-active",
        "this machine has no Metal. The software device can stand in for it, but "
        + (
            f"MPS_DS_SOFT={asked} did not start it."
            if is_on("MPS_DS_SOFT", machine.environment)
            else "is only used when asked for."
        ),
        "Run\n    MPS_DS_SOFT=1 python -m mps_ds.selftest",
    )


def mps_unavailable(machine: Machine) -> Finding | None:
    """A Mac that should have MPS and does not."""
    if machine.system != "Darwin" or machine.torch is None or machine.mps_available:
        return None
    if not machine.mps_built:
        return Finding(
            "mps-not-built",
            f"this PyTorch ({machine.torch}) was built without MPS.",
            "Install the build for macOS arm64 with\n"
            f"    {machine.executable} -m pip install --force-reinstall torch",
        )
    return Finding(
        "mps-unavailable",
        "PyTorch was built with MPS, but finds no Metal device. Virtual machines (hosted CI among "
        "them) and sandboxes without access to the GPU have none.",
        "Run on the Mac itself, in a login session.",
    )


def gpu_unsupported(machine: Machine) -> Finding | None:
    """A Metal device that cannot run the kernels, as in some virtual machines."""
    if not machine.gpu_unsupported:
        return None
    return Finding(
        "gpu-unsupported", f"{machine.gpu_unsupported}.", "Run on the Mac itself, not in a guest."
    )


def software_forced(machine: Machine) -> Finding | None:
    """A Mac on which someone forced the software device."""
    if machine.system != "Darwin" or not machine.software:
        return None
    return Finding(
        "software-forced",
        "MPS_DS_SOFT=force replaces this Mac's GPU by the software device.",
        "Clear it with\n    unset MPS_DS_SOFT",
        fatal=False,
    )


def fallback_enabled(machine: Machine) -> Finding | None:
    """Not an error, but it hides what is slow."""
    value = machine.environment.get("PYTORCH_ENABLE_MPS_FALLBACK", "0")
    if value in ("", "0"):
        return None
    return Finding(
        "mps-fallback",
        f"PYTORCH_ENABLE_MPS_FALLBACK={value}: PyTorch runs operators that MPS lacks on the CPU, "
        "which waits for the GPU and copies both ways each time. mps_ds never needs it; your model "
        "may, and is slow where it does.",
        "Clear it to see which operators are missing:\n    unset PYTORCH_ENABLE_MPS_FALLBACK",
        fatal=False,
    )


def memory_limit(machine: Machine) -> Finding | None:
    """PyTorch's limit of the memory that MPS may take, changed or switched off."""
    name = "PYTORCH_MPS_HIGH_WATERMARK_RATIO"
    value = machine.environment.get(name)
    if value is None:
        return None
    try:
        ratio = float(value)
    except ValueError:
        problem = f"{name}={value} is not a number."
    else:
        if ratio == 0:
            problem = (
                f"{name}={value} takes away PyTorch's limit: a program that needs too much memory "
                "then makes the whole Mac swap or stop, instead of raising an error."
            )
        else:
            problem = (
                f"{name}={value}: PyTorch raises an error beyond {ratio:g} times the memory that "
                "Metal recommends (without this variable 1.7 times)."
            )
    return Finding(
        "memory-limit", problem, f"For PyTorch's own limit\n    unset {name}", fatal=False
    )


RULES: tuple[Rule, ...] = (
    operating_system,
    rosetta,
    intel_mac,
    macos_too_old,
    torch_missing,
    torch_too_old,
    native_missing,
    software_refused,
    software_not_asked_for,
    mps_unavailable,
    gpu_unsupported,
    software_forced,
    fallback_enabled,
    memory_limit,
    *libraries.RULES,
)


def diagnose(machine: Machine) -> list[Finding]:
    """All findings, causes first. A Python of the wrong kind explains the rest: told alone."""
    findings = [finding for rule in RULES if (finding := rule(machine)) is not None]
    for finding in findings:
        if finding.name in ("operating-system", "rosetta", "intel-mac"):
            return [finding]
    return findings
