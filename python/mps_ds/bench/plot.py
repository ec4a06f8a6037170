"""The PNG: a panel for each comparison, a bar for each contestant; for training, its phases."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .results import TIMES, Report, Result, Row
from .training import PHASES

WHY_NOT = (
    "--png needs matplotlib, which is not installed: python -m pip install matplotlib "
    "(or 'mps_ds[bench]')"
)
COLUMNS = 3
OURS, THEIRS = "#1f77b4", "#b0b0b0"
FONT_SIZE = 7


def available() -> bool:
    """Whether matplotlib is installed; it is not imported."""
    return importlib.util.find_spec("matplotlib") is not None


def write(report: Report, path: Path) -> None:
    """Write the file, in the format of its suffix, PNG without one."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = [result for result in report.results if result.rows]
    training = report.training if report.training and "steps" in report.training else None
    panels = len(shown) + (training is not None)
    columns = max(1, min(COLUMNS, panels))
    lines = max(1, -(-panels // columns))
    figure = Figure(figsize=(6.5 * columns, 2.6 * lines + 0.8), layout="constrained")
    FigureCanvasAgg(figure)
    name = report.device.get("chip") or report.device.get("name") or report.device.get("system", "")
    what = "milliseconds" if report.measure == TIMES else "bytes an element, calls"
    figure.suptitle(f"mps_ds.bench, {name}: {what}", fontsize=10)
    axes = list(figure.subplots(lines, columns, squeeze=False).flat)
    for result, panel in zip(shown, axes, strict=False):
        draw(result, panel)
    if training is not None:
        draw_training(training, report.measure == TIMES, axes[len(shown)])
    for panel in axes[panels:]:
        panel.axis("off")
    figure.savefig(path, format=path.suffix.lstrip(".").lower() or "png", dpi=110)


def draw(result: Result, panel: Any) -> None:
    """One comparison: bars from the left, labels beside them."""
    elements = result.case.shapes.elements
    rows = result.rows[::-1]
    bars = panel.barh(
        [row.name for row in rows],
        [height(row, elements) for row in rows],
        color=[OURS if row.ours else THEIRS for row in rows],
    )
    panel.bar_label(bars, [label(row, elements) for row in rows], fontsize=FONT_SIZE, padding=2)
    shapes = result.case.shapes
    title = f"{result.case.title}: {shapes.title}, {len(shapes.shapes):,} tensors, {result.device}"
    finish(panel, title)


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
    declared = f", {row.counts.declared:,} declared" if row.counts.declared else ""
    return f"{row.counts.bytes / elements:.3g} B, {calls:,} calls{declared}"


def draw_training(training: Mapping[str, Any], times: bool, panel: Any) -> None:
    """Phases of a step one after the other; on the software device the bytes of each part."""
    steps: Mapping[str, Mapping[str, float]] = training["steps"]
    names = list(steps)[::-1]
    if times:
        left = [0.0] * len(names)
        for phase in PHASES:
            widths = [steps[name][phase] * 1e3 for name in names]
            panel.barh(names, widths, left=left, label=phase)
            left = [begin + width for begin, width in zip(left, widths, strict=True)]
        panel.legend(fontsize=FONT_SIZE)
    else:
        widths = [steps[name]["bytes"] / training["parameters"] for name in names]
        panel.bar_label(panel.barh(names, widths), fmt="%.1f B", fontsize=FONT_SIZE, padding=2)
    finish(panel, "training step")


def finish(panel: Any, title: str) -> None:
    """Room for the labels, and small letters."""
    panel.margins(x=0.45)
    panel.tick_params(labelsize=FONT_SIZE)
    panel.set_title(title, fontsize=FONT_SIZE + 1)
