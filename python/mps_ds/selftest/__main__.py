"""Command line of the self test."""

import argparse
import faulthandler
import os
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mps_ds.selftest import attachment, diagnosis
from mps_ds.selftest.explain import explain
from mps_ds.selftest.machine import Machine, gather
from mps_ds.selftest.report import FAILED, PASSED, SKIPPED, Report, Result, print_result

EXIT_PASSED, EXIT_FAILED, EXIT_USAGE, EXIT_CANNOT_WORK = 0, 1, 2, 3


def describe(machine: Machine) -> dict[str, Any]:
    """The device as the report names it, from facts that need no torch."""
    facts: dict[str, Any] = {
        "chip": machine.chip,
        "memory_bytes": machine.memory_bytes,
        "macos": machine.macos,
        "python": machine.python,
        "torch": machine.torch,
        "system": f"{machine.system} {machine.arch}",
        "software": machine.software,
    }
    return {name: fact for name, fact in facts.items() if fact is not None}


def ask_device() -> dict[str, Any]:
    """What the native library knows of the device; needs a machine that works."""
    import mps_ds

    return dict(mps_ds.device_info())


def print_device(device: dict[str, Any]) -> None:
    """Chip, memory, system; and, for the software device, what it does not prove."""
    names = {
        "name": "device",
        "chip": "chip",
        "macos": "macOS",
        "system": "system",
        "python": "Python",
        "torch": "torch",
    }
    for key, label in names.items():
        if device.get(key) not in (None, ""):
            print(f"{label + ':':<9}{device[key]}")
    if device.get("memory_bytes"):
        print(f"{'memory:':<9}{device['memory_bytes'] / 2**30:.1f} GiB")
    if device.get("software"):
        print(
            "This is a SOFTWARE device: it stands in for a Mac's GPU on the CPU. It shows that\n"
            "results are right; times on it say nothing about any Mac."
        )
    print(flush=True)


def print_findings(findings: Sequence[diagnosis.Finding]) -> None:
    """What is wrong, and under it what to do."""
    for finding in findings:
        print(f"{'PROBLEM' if finding.fatal else 'note'}: {finding.problem}")
        for line in finding.remedy.splitlines():
            print(f"    {line}")
        print()


def print_explanation(text: str) -> int:
    """What is known of a message; gives the exit status."""
    known = explain(text)
    for message in known:
        print(f'"{message.words}"')
        print(f"    cause:  {message.cause}")
        print(f"    remedy: {message.remedy}")
    if not known:
        print("No message like this is known. Run the self test without --explain.")
    return EXIT_PASSED if known else EXIT_FAILED


def run_checks(report: Report, quick: bool) -> None:
    """Every check runs, also after one has failed; an exception is a failure."""
    from mps_ds.selftest.checks import CHECKS

    for check in CHECKS:
        result = Result(check.name, check.title, SKIPPED)
        report.results.append(result)
        if quick and check.long:
            result.error = "left out by --quick"
            print_result(result)
            continue
        started = time.perf_counter()
        try:
            result.figures = check.run()
            _raise_what_the_gpu_did()
            kept = bool(result.figures) and all(figure.passed for figure in result.figures)
            result.status = PASSED if kept else FAILED
        except Exception as error:  # whatever it is, the remaining checks still run
            result.status = FAILED
            where = (
                traceback.format_exc(limit=-2).strip()
                if not isinstance(error, AssertionError)
                else ""
            )
            result.error = f"{type(error).__name__}: {error}\n{where}".strip()
        result.seconds = time.perf_counter() - started
        print_result(result)


def _raise_what_the_gpu_did() -> None:
    """A failure of the GPU shows in no call of PyTorch's."""
    import torch

    from mps_ds._native import C

    torch.mps.synchronize()
    C.raise_failure()


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="python -m mps_ds.selftest",
        description="Shows that mps_ds works on this machine, or says why it cannot.",
        epilog=f"Exit status: {EXIT_PASSED} all checks passed, {EXIT_FAILED} one failed "
        "(with --explain: nothing is known of the message), "
        f"{EXIT_USAGE} a wrong option or a file that cannot be written, "
        f"{EXIT_CANNOT_WORK} this machine cannot run them.",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write everything to FILE as well"
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="write FILE to attach to an issue: the same, with versions and environment variables, "
        "without user names and paths",
    )
    parser.add_argument(
        "--explain",
        metavar="MESSAGE",
        help="say what an error or a warning means and what to do, and run nothing; "
        "quote the message, or words of it",
    )
    parser.add_argument("--quick", action="store_true", help="leave out the training run")
    return parser.parse_args(arguments)


def why_not_writable(file: Path) -> str | None:
    """Why `file` cannot be written, found by opening it; None: it can. Leaves nothing behind."""
    if os.path.exists(file) and not (os.path.isfile(file) or os.path.isdir(file)):
        return None  # a pipe or a terminal, to which opening and closing means something
    existed = os.path.lexists(file)
    try:
        with file.open("a"):
            pass
    except OSError as error:
        return error.strerror or type(error).__name__
    if not existed:
        file.unlink()
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the self test; gives the exit status."""
    options = parse(arguments)
    if options.explain is not None:
        return print_explanation(options.explain)
    for option, file in (("--json", options.json), ("--report", options.report)):
        if file and (why := why_not_writable(file)):
            print(
                f"{option}: cannot write {file} ({why}). Name a file in a folder that exists and "
                "that you may write to.",
                file=sys.stderr,
            )
            return EXIT_USAGE
    started = time.perf_counter()

    machine = gather()
    findings = diagnosis.diagnose(machine)
    report = Report(device=describe(machine), findings=[vars(finding) for finding in findings])
    report.usable = not any(finding.fatal for finding in findings)
    if report.usable:
        report.device = {**ask_device(), **report.device}
    print_device(dict(report.device))
    print_findings(findings)
    if report.usable:
        run_checks(report, options.quick)
        seconds = time.perf_counter() - started
        print(
            f"\n{report.count(PASSED)} passed, {report.count(FAILED)} failed, "
            f"{report.count(SKIPPED)} skipped in {seconds:.1f} s"
        )
    else:
        print("mps_ds cannot work here; no check was run.")
    if options.json:
        report.write_json(options.json)
    if options.report:
        attachment.write(report, options.report)
        print(f"{options.report} can be attached to an issue.")
    if not report.usable:
        return EXIT_CANNOT_WORK
    return EXIT_PASSED if report.passed else EXIT_FAILED


if __name__ == "__main__":
    faulthandler.enable()  # a crash in native code should at least say in which check
    sys.exit(main())
