"""Runs Lightning's own tests on mps.

    python tests/upstream/run_lightning.py CHECKOUT [--packages separate] [--only WORD] [--all]

CHECKOUT is a working tree of Lightning's repository, of the version that is installed or the tag
next to it: its `tests` folder and pyproject.toml are enough. Nothing of it is copied into this
repository. What the tests import must be installed: pytest-timeout, pytest-random-order,
pytest-rerunfailures, cloudpickle, scikit-learn, tensorboard, tensorboardX and
jsonargparse[signatures].

Without more it runs the files below, in which Lightning tests MPS. `--all` runs all files: a
Trainer takes the MPS device unasked, so all of them are tests of it (an hour or more).
`--packages separate` runs the tests on pytorch_lightning and lightning_fabric, whose classes are
others than those of `lightning`: a copy in a temporary folder imports these.

Prints what passed, failed and was skipped, by file; the exit status is 1 if anything failed that is
not named as known below.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from judge import Suite, Target, judge

# Where Lightning tests MPS: marked so, or by a fixture that counts MPS devices.
FILES = (
    "tests_fabric/accelerators",
    "tests_fabric/plugins/precision",
    "tests_fabric/strategies/test_strategy.py",
    "tests_fabric/strategies/test_single_device.py",
    "tests_fabric/test_cli.py",
    "tests_fabric/test_connector.py",
    "tests_fabric/test_fabric.py",
    "tests_fabric/test_wrappers.py",
    "tests_fabric/utilities/test_apply_func.py",
    "tests_fabric/utilities/test_device_dtype_mixin.py",
    "tests_fabric/utilities/test_device_parser.py",
    "tests_pytorch/accelerators",
    "tests_pytorch/callbacks/test_device_stats_monitor.py",
    "tests_pytorch/core/test_lightning_module.py",
    "tests_pytorch/core/test_saving.py",
    "tests_pytorch/loops/test_all.py",
    "tests_pytorch/models/test_amp.py",
    "tests_pytorch/models/test_gpu.py",
    "tests_pytorch/models/test_hooks.py",
    "tests_pytorch/plugins/precision/test_amp.py",
    "tests_pytorch/strategies/test_common.py",
    "tests_pytorch/strategies/test_registry.py",
    "tests_pytorch/strategies/test_single_device.py",
    "tests_pytorch/trainer/connectors/test_accelerator_connector.py",
    "tests_pytorch/trainer/flags",
    "tests_pytorch/trainer/properties",
    "tests_pytorch/trainer/test_trainer.py",
    "tests_pytorch/utilities/test_model_summary.py",
)
ALL = ("tests_fabric", "tests_pytorch")
SEPARATE = {"lightning.pytorch": "pytorch_lightning", "lightning.fabric": "lightning_fabric"}

# Tests that start processes for DDP do so on the CPU, and take most of the time.
SELECTION = "mps or not (ddp or spawn or fork)"

# What fails for a reason that is not ours.
KNOWN = {
    "test_bitsandbytes_plugin": "Lightning's own mark skips it on macOS: it wants no MPS device",
}


def environment() -> dict[str, str]:
    """Ours, with the software device where there is no other."""
    told = dict(os.environ)
    told.setdefault("OMP_NUM_THREADS", "1")
    # Tests start the command `fabric`.
    scripts = os.pathsep.join([sysconfig.get_path("scripts"), told.get("PATH", os.defpath)])
    told["PATH"] = scripts
    if sys.platform != "darwin":
        told["MPS_DS_SOFT"] = "1"
    return told


def why_no_mps(packages: str) -> str | None:
    """Why Lightning finds no MPS device in processes with that environment; None: it does."""
    fabric = "lightning_fabric" if packages == "separate" else "lightning.fabric"
    asked = subprocess.run(
        [
            sys.executable, "-c",
            f"from {fabric}.accelerators import MPSAccelerator as mps;"
            "raise SystemExit(None if mps.is_available() else 'Lightning finds no MPS device')",
        ],
        env=environment(),
        capture_output=True,
        text=True,
    )  # fmt: skip
    return asked.stderr.strip() if asked.returncode else None


def importing_separate_packages(checkout: Path, target: Path) -> Path:
    """A copy of the checkout's tests that imports pytorch_lightning and lightning_fabric."""
    shutil.copy(checkout / "pyproject.toml", target)
    shutil.copytree(checkout / "tests", target / "tests", ignore=shutil.ignore_patterns("legacy"))
    for source in (target / "tests").rglob("*.py"):
        text = source.read_text()
        for name, separate in SEPARATE.items():
            text = text.replace(name, separate)
        source.write_text(text)
    return target


def targets(wanted: list[str]) -> list[Target]:
    """One pytest for Fabric's tests, one for the Trainer's: they have a conftest each."""
    halves = {half: tuple(path for path in wanted if path.startswith(half)) for half in ALL}
    return [Target(half, paths) for half, paths in halves.items() if paths]


def main() -> int:
    """Run, print, return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--packages", choices=("lightning", "separate"), default="lightning")
    parser.add_argument("--only", default=SELECTION, help=f"pytest's -k; without it, {SELECTION}")
    parser.add_argument("--files", nargs="*", default=list(FILES), help="below CHECKOUT/tests")
    parser.add_argument("--all", action="store_true", help="all files")
    parser.add_argument("--minutes", type=float, default=240, help="limit of each half")
    parser.add_argument("--logs", type=Path, help="where pytest's output and reports go")
    arguments, more = parser.parse_known_args()
    refused = why_no_mps(arguments.packages)
    if refused:
        print(f"Nothing would be tested. Install mps_ds and Lightning: {refused}", file=sys.stderr)
        return 2

    logs = arguments.logs or Path(tempfile.mkdtemp(prefix="lightning-tests-"))
    options = ["--timeout=300", "-k", arguments.only, *more]
    with tempfile.TemporaryDirectory(prefix="lightning-separate-") as copy:
        checkout = arguments.checkout.resolve()
        if arguments.packages == "separate":
            checkout = importing_separate_packages(checkout, Path(copy))
        suite = Suite(
            folder=checkout / "tests",
            environment=environment(),
            logs=logs.resolve(),
            options=options,
            known=KNOWN,
            minutes=arguments.minutes,
        )
        return judge(suite, targets(list(ALL) if arguments.all else arguments.files))


if __name__ == "__main__":
    sys.exit(main())
