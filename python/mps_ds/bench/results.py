"""What a run found: rows of figures, printed as tables and written as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .cases import Case
from .counting import Counts
from .timing import Timing

TIMES, COUNTS = "times", "counts"


@dataclass
class Row:
    """A contestant's figures: either times or counts, or the error that it ended with.

    Attributes:
        ratio: its time by that of the first contestant.
        bandwidth_share: of the bandwidth that a copy reaches, by the bytes that it must move.
    """

    name: str
    ours: bool
    least_bytes: int = 0
    timing: Timing | None = None
    ratio: float | None = None
    bandwidth_share: float | None = None
    counts: Counts | None = None
    error: str = ""

    def as_json(self, elements: int) -> dict[str, Any]:
        """Figures that were taken, and no others: the software device has no times."""
        content: dict[str, Any] = {
            "name": self.name,
            "ours": self.ours,
            "least_bytes": self.least_bytes,
        }
        if self.timing:
            content |= vars(self.timing)
            content |= {"ratio": self.ratio, "bandwidth_share": self.bandwidth_share}
        if self.counts:
            content |= vars(self.counts)
            content["bytes_per_element"] = self.counts.bytes / elements
        if self.error:
            content["error"] = self.error
        return content


@dataclass
class Result:
    """What came of a comparison; `skipped` says why it was left out."""

    case: Case
    device: str
    rows: list[Row] = field(default_factory=list)
    skipped: str = ""
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """For the file."""
        shapes = self.case.shapes
        return {
            "group": self.case.group,
            "name": self.case.name,
            "title": self.case.title,
            "device": self.device,
            "shapes": shapes.title,
            "tensors": len(shapes.shapes),
            "elements": shapes.elements,
            "rows": [row.as_json(shapes.elements) for row in self.rows],
            "skipped": self.skipped,
            "notes": self.notes,
        }


@dataclass
class Report:
    """A run.

    Attributes:
        measure: TIMES or COUNTS.
        device: facts about the machine.
        copy_bandwidth: bytes a second of a copy on each device that was timed.
        notes: what was left out, and why.
        training: of --train; None without.
    """

    measure: str
    device: Mapping[str, Any]
    copy_bandwidth: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    training: dict[str, Any] | None = None

    @property
    def ours_failed(self) -> bool:
        """Whether a contestant of mps_ds ended with an error."""
        return any(row.ours and row.error for result in self.results for row in result.rows)

    def as_json(self) -> dict[str, Any]:
        """The file's content; docs/bench.md describes it."""
        content: dict[str, Any] = {
            "format": 1,
            "measure": self.measure,
            "device": dict(self.device),
            "notes": self.notes,
            "cases": [result.as_json() for result in self.results],
        }
        if self.measure == TIMES:
            content["copy_bandwidth"] = self.copy_bandwidth
        if self.training is not None:
            content["training"] = self.training
        return content

    def write_json(self, path: Path) -> None:
        """Write the file."""
        path.write_text(json.dumps(self.as_json(), indent=2, default=str) + "\n", encoding="utf-8")


TIME_HEAD = ("ms", "host ms", "times ours", "of copy")
COUNT_HEAD = (
    "dispatches", "operators", "declared", "commits", "waits", "host reads", "bytes/element",
)  # fmt: skip
NAME_WIDTH = 36


def print_result(result: Result) -> None:
    """A table."""
    shapes = result.case.shapes
    print(
        f"\n{result.case.title}: {shapes.title}, {len(shapes.shapes):,} tensors, "
        f"{shapes.elements:,} elements, {result.device}"
    )
    if result.skipped:
        print(f"  left out: {result.skipped}")
        return
    head = COUNT_HEAD if any(row.counts for row in result.rows) else TIME_HEAD
    print_table(head, [(row.name, cells(row, shapes.elements)) for row in result.rows])
    for note in result.notes:
        print(f"  {note}")


def cells(row: Row, elements: int) -> Sequence[str]:
    """A row of the table, without its name."""
    if row.error:
        return [f"  {row.error}"]
    if row.counts:
        *whole, moved = vars(row.counts).values()
        return [*(f"{value:,}" for value in whole), f"{moved / elements:.2f}"]
    if row.timing is None:
        return []
    return [
        f"{row.timing.seconds * 1e3:.3f}",
        f"{row.timing.host_seconds * 1e3:.3f}",
        "" if row.ratio is None else f"{row.ratio:.2f}",
        "" if row.bandwidth_share is None else f"{row.bandwidth_share:.0%}",
    ]


def print_table(head: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Columns as wide as their head, and at least ten characters."""
    widths = [max(10, len(column) + 2) for column in head]

    def line(values: Sequence[str]) -> str:
        return "".join(f"{v:>{w}}" for v, w in zip(values, widths, strict=False))

    print(f"  {'':{NAME_WIDTH}}{line(head)}")
    for name, values in rows:
        tail = line(values) if len(values) != 1 else values[0]
        print(f"  {name:{NAME_WIDTH}}{tail}", flush=True)
