"""Sources that others published, fetched with pip. Nothing of them is committed.

They lie in a folder of the Python environment, so that `make clean` keeps them. What cannot be
fetched is an error: a test that needs it fails.
"""

import fnmatch
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(sys.prefix) / ".mps_ds" / "real_kernels"


@dataclass(frozen=True)
class Package:
    """A distribution, and the files of it that are unpacked."""

    requirement: str
    files: str  # a pattern
    options: tuple[str, ...]  # of `pip download`

    @property
    def folder(self) -> Path:
        """Where it is unpacked."""
        return FOLDER / self.requirement.replace("==", "-")


MLX = Package(
    "mlx-metal==0.32.4",
    "mlx/include/mlx/backend/metal/kernels/*",
    ("--only-binary=:all:", "--platform=macosx_14_0_arm64", "--python-version=3.11"),
)
# Unpacked only, so its own requirements to be built do not matter.
DEEPSPEED = Package(
    "deepspeed==0.19.8", "*/csrc/mps/*.metal", ("--no-binary=:all:", "--no-build-isolation")
)


class NotFetched(RuntimeError):
    """A package could not be fetched; the message says what pip said."""


def fetch(package: Package) -> Path:
    """The folder of the unpacked package, downloaded if it is not there."""
    mark = package.folder / ".complete"
    if not mark.exists():
        shutil.rmtree(package.folder, ignore_errors=True)
        package.folder.mkdir(parents=True)
        _unpack(_download(package), package)
        mark.touch()
    return package.folder


def _download(package: Package) -> Path:
    downloads = package.folder / "download"
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    command += ["download", "--no-deps", "--dest", str(downloads), *package.options]
    done = subprocess.run([*command, package.requirement], capture_output=True, text=True)
    if done.returncode:
        raise NotFetched(
            f"{package.requirement} could not be fetched. These tests run kernels from it and "
            f"need a package index that offers it. To repeat the step:\n    "
            f"{' '.join([*command, package.requirement])}\n"
            f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    (archive,) = downloads.iterdir()
    return archive


def _unpack(archive: Path, package: Package) -> None:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in fnmatch.filter(wheel.namelist(), package.files):
                wheel.extract(name, package.folder)
    else:
        with tarfile.open(archive) as sources:
            for name in fnmatch.filter(sources.getnames(), package.files):
                sources.extract(name, package.folder)
    archive.unlink()
