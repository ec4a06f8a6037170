"""Command line of the bench."""

from __future__ import annotations

import argparse
import faulthandler
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mps_ds.selftest import diagnosis
from mps_ds.selftest.__main__ import ask_device, describe, print_findings, why_not_writable
from mps_ds.selftest.machine import Machine, gather

if TYPE_CHECKING:
    from .results import Report
    from .target import Target

EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_CANNOT_WORK = 0, 1, 2, 3
GROUPS = ("adam", "norms", "mixed", "resources", "cpu")
COPY_BYTES = 1 << 28

SOFTWARE = (
    "This is a SOFTWARE device: it counts what reaches the device and the bytes that move. It\n"
    "has no times: they would say nothing about any Mac. PyTorch's operators run on the CPU here;\n"
    "on a Mac each of their calls is a dispatch or more."
)
NO_TIMES_OF_THE_CPU = (
    "The comparisons on the CPU are left out: beside the software device nothing is timed. "
    "Run it without MPS_DS_SOFT for them."
)
NO_MPS = "There is no mps device here, so this is the CPU part only."


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="python -m mps_ds.bench",
        description="Compares mps_ds with PyTorch's own way on this machine.",
        epilog=f"Exit status: {EXIT_DONE} done, {EXIT_FAILED} something of mps_ds failed, "
        f"{EXIT_USAGE} a wrong option, a file that cannot be written or nothing to measure, "
        f"{EXIT_CANNOT_WORK} mps_ds cannot run here.",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    parser.add_argument("--png", type=Path, metavar="FILE", help="draw them (needs matplotlib)")
    parser.add_argument("--quick", action="store_true", help="fewer sizes, fewer repetitions")
    parser.add_argument(
        "--only", nargs="+", choices=GROUPS, metavar="GROUP", help=f"of {', '.join(GROUPS)}"
    )
    parser.add_argument(
        "--train",
        action="store_true",
        help="how the time of a training step divides into forward, backward and optimizer; "
        "without the comparisons, unless --only names some",
    )
    return parser.parse_args(arguments)


def why_not(options: argparse.Namespace) -> str | None:
    """What is wrong with the options, found before anything is measured."""
    from . import plot

    for option, file in (("--json", options.json), ("--png", options.png)):
        if file and (why := why_not_writable(file)):
            return (
                f"{option}: cannot write {file} ({why}). Name a file in a folder that exists and "
                "that you may write to."
            )
    if options.png and not plot.available():
        return plot.WHY_NOT
    return None


def has_mps(machine: Machine) -> bool:
    """A device that our operations run on."""
    return machine.mps_available and machine.native_metal and machine.native_error is None


def cannot_work(machine: Machine) -> bool:
    """Not even the operations on the CPU."""
    return machine.torch is None or machine.native is None or machine.native_error is not None


def measure(options: argparse.Namespace, report: Report, targets: list[Target]) -> None:
    """Everything that was asked for, printed as it comes."""
    from . import compare, training
    from .results import TIMES, print_result
    from .timing import copy_bandwidth

    groups = options.only or ([] if options.train else GROUPS)
    rounds = compare.QUICK_ROUNDS if options.quick else compare.ROUNDS
    for target in targets:
        cases = compare.cases(target, groups, options.quick)
        if cases and report.measure == TIMES:
            size = min(COPY_BYTES, target.budget // 4)
            report.copy_bandwidth[target.device] = copy_bandwidth(target, size, rounds)
            target.free()
        bandwidth = report.copy_bandwidth.get(target.device)
        if bandwidth:
            print(f"copy on {target.device}: {bandwidth / 1e9:.1f} GB/s read and written")
        for case in cases:
            result = compare.run(case, target, rounds, bandwidth)
            report.results.append(result)
            print_result(result)
    if options.train:
        report.training = training.run(targets[0], options.quick)


def devices(machine: Machine) -> tuple[list[Target], str, list[str]]:
    """Where to measure, what, and notes on what is left out."""
    from . import target
    from .results import COUNTS, TIMES

    if not has_mps(machine):
        return [target.cpu()], TIMES, [NO_MPS]
    if machine.software:
        return [target.mps(software=True)], COUNTS, [SOFTWARE, NO_TIMES_OF_THE_CPU]
    return [target.mps(software=False), target.cpu()], TIMES, []


def start(machine: Machine) -> tuple[Report, list[Target]]:
    """The report's head, printed."""
    import torch

    from .results import Report

    targets, what, notes = devices(machine)
    facts: dict[str, Any] = {**describe(machine), "threads": torch.get_num_threads()}
    if has_mps(machine):
        facts = {**ask_device(), **facts}
    for name in ("name", "chip", "macos", "system", "python", "torch", "threads"):
        if facts.get(name):
            print(f"{name + ':':<9}{facts[name]}")
    for note in notes:
        print(note)
    return Report(what, facts, notes=[" ".join(note.split()) for note in notes]), targets


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench; gives the exit status."""
    options = parse(arguments)
    machine = gather()
    if cannot_work(machine):
        print_findings(diagnosis.diagnose(machine))
        print("mps_ds cannot work here; nothing was measured.")
        return EXIT_CANNOT_WORK
    if wrong := why_not(options):
        print(wrong, file=sys.stderr)
        return EXIT_USAGE
    report, targets = start(machine)
    measure(options, report, targets)
    if not report.results and report.training is None:
        print("Nothing of what was asked for can be measured here.", file=sys.stderr)
        return EXIT_USAGE
    if options.json:
        report.write_json(options.json)
    if options.png:
        from . import plot

        plot.write(report, options.png)
    return EXIT_FAILED if report.ours_failed else EXIT_DONE


if __name__ == "__main__":
    faulthandler.enable()  # a crash in native code should at least say where
    sys.exit(main())
