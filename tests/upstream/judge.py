"""Runs test files of somebody else's checkout and counts what came of them.

What the runners of DeepSpeed's and Lightning's tests share. Each target gets a pytest of its own,
so that one which hangs or dies takes no other with it. What fails for a reason that is not ours is
named beforehand, with the reason: it is counted apart, and when it passes one day, that is told.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

COLUMNS = ("passed", "known", "failed", "error", "skipped")


class Target(NamedTuple):
    """Files or folders below the suite's folder that one pytest runs."""

    name: str
    paths: tuple[str, ...]


class Outcome(NamedTuple):
    """What became of one test: passed, failed, error or skipped."""

    test: str
    outcome: str
    reason: str

    @property
    def file(self) -> str:
        """The test's file, as far as its name in a report tells."""
        parts = self.test.split("::")[0].split(".")
        while len(parts) > 1 and not parts[-1].startswith("test_"):
            parts.pop()  # classes within the file
        return "/".join(parts) + ".py"


@dataclass(frozen=True)
class Suite:
    """How the tests of one project are run."""

    folder: Path
    """Where pytest runs."""
    environment: Mapping[str, str]
    logs: Path
    """Where output and junit reports go."""
    options: Sequence[str] = ()
    """More for pytest."""
    known: Mapping[str, str] = field(default_factory=dict)
    """Reasons of failures that are not ours, by a test's name, with its file, its class or neither,
    with its parameters or without: `folder.test_file::test_name[case]`, `TestClass::test_name`,
    `test_name`."""
    minutes: float = 120
    """Limit of each target."""

    def report(self, target: Target) -> Path:
        """The junit report of a target; beside it lies its log."""
        return self.logs / (target.name.replace("/", "-").removesuffix(".py") + ".xml")


@dataclass
class Tally:
    """What became of all tests so far."""

    total: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)

    def add(self, outcomes: Sequence[Outcome], known: Mapping[str, str]) -> Counter[str]:
        """Count one file's outcomes; gives its own counts."""
        count: Counter[str] = Counter()
        for told in outcomes:
            why, failed = _known(told.test, known), told.outcome in ("failed", "error")
            if why and failed:
                self.known[why] += 1
            elif failed:
                self.broken.append(f"{told.test}: {told.reason}")
            elif told.outcome == "skipped":
                self.skipped[told.reason] += 1
            elif why:
                self.broken.append(f"{told.test}: passes, but is named as failing: {why}")
            count["known" if why and failed else told.outcome] += 1
        self.total += count
        return count


def judge(suite: Suite, targets: Iterable[Target]) -> int:
    """Run all, print a table by file and what failed; 1 if something failed unexpectedly."""
    suite.logs.mkdir(parents=True, exist_ok=True)
    tally = Tally()
    header = f"{'file':64}" + "".join(f"{name:>9}" for name in COLUMNS)
    print(f"{header}   (logs: {suite.logs})", flush=True)
    for target in targets:
        missing = [path for path in target.paths if not (suite.folder / path).exists()]
        for path in missing:
            print(f"{path:64}  not in this checkout", flush=True)
        if len(missing) == len(target.paths):
            continue
        outcomes = run(suite, target)
        if not suite.report(target).exists():
            log = suite.report(target).with_suffix(".log")
            tally.broken.append(f"{target.name}: no test ran, see {log}")
        for file in dict.fromkeys(told.file for told in outcomes):
            of_this = [told for told in outcomes if told.file == file]
            _print_row(file, tally.add(of_this, suite.known))
    if not tally.total:
        tally.broken.append("no test ran at all")
    _print_row("all", tally.total)
    for name, reasons in (("skipped", tally.skipped), ("known", tally.known)):
        for reason, times in reasons.most_common():
            print(f"    {name} {times}: {reason}")
    for line in tally.broken:
        print(f"    {line}")
    return 1 if tally.broken else 0


def run(suite: Suite, target: Target) -> list[Outcome]:
    """One target in a pytest of its own; at its time limit, what had run counts."""
    report = suite.report(target)
    report.unlink(missing_ok=True)
    paths = [path for path in target.paths if (suite.folder / path).exists()]
    command = [
        sys.executable, "-m", "pytest", *paths, "-q", "-p", "no:cacheprovider", "--color=no",
        f"--junitxml={report}", *suite.options,
    ]  # fmt: skip
    with report.with_suffix(".log").open("w") as log:
        pytest = subprocess.Popen(
            command,
            cwd=suite.folder,
            env=dict(suite.environment),
            stdout=log,
            stderr=subprocess.STDOUT,
            # In the background of a shell it would be ignored, and so by pytest.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        try:
            pytest.wait(timeout=suite.minutes * 60)
        except subprocess.TimeoutExpired:
            print(f"    {target.name}: stopped after {suite.minutes} minutes; what had run counts")
            _stop(pytest)
    return read(report)


def read(report: Path) -> list[Outcome]:
    """The outcomes in a junit report; none where pytest did not get to write it."""
    if not report.exists():
        return []
    told = []
    for case in ElementTree.parse(report).iter("testcase"):
        if case.get("name") is None:  # it was interrupted
            continue
        outcome, reason = "passed", ""
        for child in case:
            if child.tag in ("failure", "error", "skipped"):
                outcome = {"failure": "failed"}.get(child.tag, child.tag)
                reason = next(iter((child.get("message") or "").splitlines()), "")
        told.append(Outcome(f"{case.get('classname')}::{case.get('name')}", outcome, reason))
    return told


def _stop(pytest: subprocess.Popen[bytes]) -> None:
    pytest.send_signal(signal.SIGINT)  # it still writes its report
    try:
        pytest.wait(timeout=60)
    except subprocess.TimeoutExpired:
        pytest.kill()
        pytest.wait()


def _known(test: str, known: Mapping[str, str]) -> str | None:
    place, _, name = test.partition("::")
    names = (test, f"{place.rpartition('.')[2]}::{name}", name)
    for name in (*names, *(name.split("[")[0] for name in names)):
        if name in known:
            return known[name]
    return None


def _print_row(name: str, count: Counter[str]) -> None:
    print(f"{name:64}" + "".join(f"{count[column]:9}" for column in COLUMNS), flush=True)
