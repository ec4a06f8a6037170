"""The PNG: a panel for each comparison, a bar for each contestant."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from .results import TIMES, Report, Result, Row

WHY_NOT = (
    "--png needs matplotlib, which is not installed: python -m pip install matplotlib "
    "(or 'mps_ds[bench]')"
)
COLUMNS = 3
OURS, THEIRS = "#1f77b4", "#b0b0b0"


def available() -> bool:
    """Whether matplotlib is installed; it is not imported."""
    return importlib.util.find_spec("matplotlib") is not None


def height(row: Row, elements: int) -> float:
    """Of the bar: milliseconds, or bytes an element."""
    if row.timing:
        return row.timing.seconds * 1e3
    return row.counts.bytes / elements if row.counts else 0.0


def label(row: Row, elements: int) -> str:
    """Beside the bar."""
    if row.timing:
        share = "" if row.bandwidth_share is None else f", {row.bandwidth_share:.0%} of copy"
        return f"{row.timing.seconds * 1e3:.3g} ms{share}"
    if row.counts is None:
        return "failed"
    calls = row.counts.dispatches + row.counts.operators
    return f"{row.counts.bytes / elements:.3g} B, {calls:,} calls"


def write(report: Report, path: Path) -> None:
    """Write the file, in the format of its suffix, PNG without one."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = [result for result in report.results if result.rows]
    lines = max(1, -(-len(shown) // COLUMNS))
    figure = Figure(figsize=(6.5 * COLUMNS, 2.6 * lines + 0.8), layout="constrained")
    FigureCanvasAgg(figure)
    what = "milliseconds" if report.measure == TIMES else "bytes an element, software device"
    figure.suptitle(f"mps_ds.bench: {report.device.get('chip', report.device.get('name', ''))}, "
                    f"{what}")  # fmt: skip
    panels = figure.subplots(lines, COLUMNS, squeeze=False).flat
    for result, panel in zip(shown, panels, strict=False):
        draw(result, panel)
    for panel in list(panels)[len(shown) :]:
        panel.axis("off")
    suffix = path.suffix.lstrip(".").lower() or "png"
    figure.savefig(path, format=suffix, dpi=110)


def draw(result: Result, panel: Any) -> None:
    """One comparison: bars from the left, labels beside them."""
    elements = result.case.shapes.elements
    rows = result.rows[::-1]
    bars = panel.barh(
        [row.name for row in rows],
        [height(row, elements) for row in rows],
        color=[OURS if row.ours else THEIRS for row in rows],
    )
    panel.bar_label(bars, [label(row, elements) for row in rows], fontsize=7, padding=2)
    panel.margins(x=0.45)
    panel.tick_params(labelsize=7)
    panel.set_title(f"{result.case.title}, {result.case.shapes.title}", fontsize=8)
