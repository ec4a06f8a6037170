"""Figures with their bounds, how they are printed, and the JSON file."""

import json
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

Relation = Literal["<=", "<", ">=", "=="]
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    "==": operator.eq,
}

ERROR_LINES, ERROR_COLUMNS = 12, 300
"""How much of an error is printed: PyTorch's can be pages long. The JSON file has all of it."""

PASSED, FAILED, SKIPPED = "pass", "FAIL", "skip"


@dataclass(frozen=True)
class Figure:
    """One measured value and the bound that it must keep. A NaN keeps no bound."""

    what: str
    value: float
    relation: Relation
    bound: float
    unit: str = ""

    @property
    def passed(self) -> bool:
        """Whether the value keeps its bound."""
        return _COMPARE[self.relation](self.value, self.bound)

    def __str__(self) -> str:
        value, bound = (f"{number:.6g}" for number in (self.value, self.bound))
        unit = f" {self.unit}" if self.unit else ""
        return f"{self.what}: {value}{unit}  (bound: {self.relation} {bound})"


@dataclass
class Result:
    """What came of one check."""

    name: str
    title: str
    status: str
    seconds: float = 0.0
    figures: Sequence[Figure] = ()
    error: str = ""

    def as_json(self) -> dict[str, Any]:
        """For the JSON file: the fields, and each figure with whether it passed."""
        figures = [{**asdict(figure), "passed": figure.passed} for figure in self.figures]
        return {**asdict(self), "figures": figures}


@dataclass
class Report:
    """Everything that one run of the self test found."""

    device: Mapping[str, Any] = field(default_factory=dict)
    findings: Sequence[Mapping[str, Any]] = ()
    results: list[Result] = field(default_factory=list)
    usable: bool = True

    @property
    def passed(self) -> bool:
        """True only if checks ran and none failed."""
        ran = [result for result in self.results if result.status != SKIPPED]
        return self.usable and bool(ran) and all(result.status == PASSED for result in ran)

    def count(self, status: str) -> int:
        """How many checks ended so."""
        return sum(result.status == status for result in self.results)

    def as_json(self) -> dict[str, Any]:
        """The JSON file's content."""
        return {
            "format": 1,
            "passed": self.passed,
            "usable": self.usable,
            "device": dict(self.device),
            "findings": [dict(finding) for finding in self.findings],
            "checks": [result.as_json() for result in self.results],
        }

    def write_json(self, path: Path) -> None:
        """Write the file; `default=str` because a device may describe itself in its own types."""
        path.write_text(json.dumps(self.as_json(), indent=2, default=str) + "\n", encoding="utf-8")


def print_result(result: Result) -> None:
    """One line for the check, one for each figure, and the error if there is one."""
    print(f"[{result.status}] {result.title}  ({result.seconds:.1f} s)")
    for figure in result.figures:
        print(f"       {'' if figure.passed else 'FAIL '}{figure}")
    lines = result.error.splitlines()
    for line in lines[:ERROR_LINES]:
        print(f"       {line[:ERROR_COLUMNS]}")
    if len(lines) > ERROR_LINES:
        print(f"       ... {len(lines) - ERROR_LINES} more lines (all of them with --json FILE)")
    sys.stdout.flush()
