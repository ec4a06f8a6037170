"""Facts about this machine. Gathering them never raises: what is wrong is itself a fact."""

import importlib.metadata
import importlib.util
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

from mps_ds._soft_requirements import SoftwareDeviceError, why_not


@dataclass(frozen=True)
class Machine:
    """What the diagnosis looks at. None: not known, or not there."""

    system: str = "Darwin"
    """platform.system(): Darwin on a Mac."""
    arch: str = "arm64"
    """platform.machine(): what this Python was built for, x86_64 under Rosetta."""
    processor: str = "arm"
    """platform.processor(), which Lightning looks at."""
    macos: str | None = None
    """macOS version, such as 15.1."""
    chip: str | None = None
    """The chip's own name, such as Apple M2 Pro."""
    memory_bytes: int | None = None
    """Of the whole machine; on a Mac the GPU shares it."""
    apple_silicon: bool = True
    """The hardware is Apple silicon, whatever this Python was built for."""
    translated: bool = False
    """This process runs under Rosetta."""
    python: str = "3.12.0"
    executable: str = "python"
    torch: str | None = None
    """torch.__version__, None where torch cannot be imported."""
    torch_error: str | None = None
    """Why torch cannot be imported. None with torch None: it is not installed, or MPS_DS_SOFT asks
    for a software device that cannot start (`software_refused`)."""
    mps_built: bool = False
    mps_available: bool = False
    native: str | None = None
    """Path of the native library of the operations."""
    native_error: str | None = None
    """Why that library cannot be loaded."""
    native_metal: bool = False
    """The package was built with its Metal half (not with MPS_DS_BUILD=cpu)."""
    gpu_unsupported: str = ""
    """Why the kernels cannot run on this GPU, in the native library's words."""
    software: bool = False
    """`mps` is the software device."""
    software_refused: SoftwareDeviceError | None = None
    """Why the software device cannot start, where it was asked for or is the only device."""
    environment: dict[str, str] = field(default_factory=dict)
    """The environment variables that matter here."""
    packages: dict[str, str] = field(default_factory=dict)
    """Versions of the installed among PACKAGES."""


VARIABLES = (
    "DISABLE_MPS",
    "MPS_DS_SOFT",
    "PYTORCH_ENABLE_MPS_FALLBACK",
    "PYTORCH_MPS_HIGH_WATERMARK_RATIO",
)

PACKAGES = ("lightning", "pytorch-lightning", "deepspeed", "psutil")


def gather() -> Machine:
    """The facts of the machine and process that this runs in."""
    mac = platform.system() == "Darwin"
    refused: SoftwareDeviceError | None = None
    try:
        torch_version, torch_error, mps_built, mps_available = _torch()
    except SoftwareDeviceError as error:
        torch_version, torch_error, mps_built, mps_available = None, None, False, False
        refused = error
    if torch_version and not mac:
        refused = why_not(torch_version)
    native_error, native_metal = _native() if torch_version else (None, False)
    return Machine(
        system=platform.system(),
        arch=platform.machine(),
        processor=platform.processor(),
        macos=_macos_version() if mac else None,
        chip=_output("sysctl", "-n", "machdep.cpu.brand_string") if mac else None,
        memory_bytes=_memory_bytes(),
        apple_silicon=mac and _output("sysctl", "-n", "hw.optional.arm64") == "1",
        translated=mac and _output("sysctl", "-n", "sysctl.proc_translated") == "1",
        python=platform.python_version(),
        executable=sys.executable,
        torch=torch_version,
        torch_error=torch_error,
        mps_built=mps_built,
        mps_available=mps_available,
        native=_library("mps_ds._C"),
        native_error=native_error,
        native_metal=native_metal,
        gpu_unsupported=_gpu_unsupported() if native_metal and mps_available else "",
        software=_software_active(),
        software_refused=refused,
        environment={name: os.environ[name] for name in VARIABLES if name in os.environ},
        packages=versions(PACKAGES),
    )


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Of these packages, as far as they are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _output(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _macos_version() -> str | None:
    """From sw_vers: platform.mac_ver() says 10.16 in a Python built against an old SDK."""
    return _output("sw_vers", "-productVersion") or platform.mac_ver()[0] or None


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _torch() -> tuple[str | None, str | None, bool, bool]:
    if _library("torch") is None:
        return None, None, False, False
    try:
        import torch
    except SoftwareDeviceError:  # nothing is wrong with torch
        raise
    except Exception as error:  # whatever a broken installation raises, it is what we report
        return None, f"{type(error).__name__}: {error}", False, False
    mps = torch.backends.mps
    return torch.__version__, None, bool(mps.is_built()), bool(mps.is_available())


def _library(module: str) -> str | None:
    """Path of an extension module, found without importing it."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return spec.origin if spec else None


def _native() -> tuple[str | None, bool]:
    """Why the native library cannot be loaded, and whether it has its Metal half."""
    if _library("mps_ds._C") is None:
        return None, False
    try:
        from mps_ds._native import C
    except Exception as error:  # whatever it is, it is what we report
        cause = error.__cause__ or error
        return f"{type(cause).__name__}: {cause}", False
    return None, bool(C.has_metal)


def _gpu_unsupported() -> str:
    from mps_ds._native import C

    facts = C.device_facts()
    return str(C.unsupported_device(facts["metal3"], facts["argument_buffers_tier"]))


def _software_active() -> bool:
    module = sys.modules.get("mps_ds.softmps")
    return bool(module and module.is_active())
