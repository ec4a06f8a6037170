"""Draw a result of run.py: python benchmarks/gpu/plot.py RESULT.json (matplotlib, .[bench])."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

COLOURS = {
    "mps_ds": "#d62728",
    "torch fused": "#1f77b4",
    "torch foreach": "#aec7e8",
    "DeepSpeed CUDA": "#2ca02c",
    "DeepSpeed Metal": "#98df8a",
}


def shares(axes: Any, rows: list[dict]) -> None:
    """Of every kind of Adam: the share of the copy's bandwidth."""
    works = list(dict.fromkeys((r["work"], r["model"]) for r in rows))
    labels = []
    place = 0.0
    for work, model in reversed(works):
        own = [r for r in rows if (r["work"], r["model"]) == (work, model)]
        middle = place + (len(own) - 1) / 2
        labels.append((middle, f"{work.removeprefix('Adam ')}\n{model}"))
        for row in reversed(own):
            share = 100 * row["share of copy"]
            axes.barh(place, share, 0.9, color=COLOURS[row["who"]])
            axes.text(share + 0.5, place, f"{share:.1f}", va="center", fontsize=6)
            place += 1
        place += 0.8
    axes.set_yticks(*zip(*labels, strict=True), fontsize=6)
    axes.set_xlabel("share of the copy's bandwidth, %")
    for who, colour in COLOURS.items():
        axes.barh(0, 0, color=colour, label=who)
    axes.legend(fontsize=6, loc="lower right")
    axes.set_xlim(0, 108)


def sizes(axes: Any, rows: list[dict], axis: str, label: str) -> None:
    """Time over the number of elements or of tensors."""
    for who, colour in COLOURS.items():
        own = [r for r in rows if r["axis"] == axis and r["who"] == who]
        if own:
            xs = [r["count"] for r in own]
            axes.loglog(xs, [r["ms"] for r in own], "o-", color=colour, ms=3, label=who)
    axes.set_xlabel(label)
    axes.set_ylabel("ms")
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(fontsize=6)


def choices(axes: Any, rows: list[dict], kind: str, model: str) -> None:
    """Share of copy of each chunk and number of threads."""
    own = [r for r in rows if (r["kind"], r["model"]) == (kind, model)]
    chunks = sorted({r["chunk"] for r in own})
    threads = sorted({r["threads"] for r in own})
    found = {(r["chunk"], r["threads"]): 100 * r["share of copy"] for r in own}
    grid = [[found.get((c, t), float("nan")) for t in threads] for c in chunks]
    axes.imshow(grid, aspect="auto", vmin=80, vmax=100, cmap="viridis")
    for i, line in enumerate(grid):
        for j, value in enumerate(line):
            if value == value:
                axes.text(j, i, f"{value:.1f}", ha="center", va="center", fontsize=5, color="w")
    axes.set_xticks(range(len(threads)), threads, fontsize=6)
    axes.set_yticks(range(len(chunks)), chunks, fontsize=6)
    axes.set_xlabel("threads")
    axes.set_ylabel("chunk")
    axes.set_title(f"{kind}, {model}", fontsize=7)


def main() -> None:
    """Write RESULT.png beside RESULT.json."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("result", type=Path)
    args = parser.parse_args()
    result = json.loads(args.result.read_text())
    figure, axes = plt.subplots(2, 3, figsize=(15, 9), layout="constrained")
    grid = axes[0, 0].get_gridspec()
    for old in axes[:, 0]:
        old.remove()
    shares(figure.add_subplot(grid[:, 0]), result["adam"])
    sizes(axes[0, 1], result["sizes"], "elements", "elements of one tensor, fp32")
    sizes(axes[0, 2], result["sizes"], "tensors", "tensors of 30,000 elements, fp32")
    choices(axes[1, 1], result["choice"], "fp32", "llama-1b")
    choices(axes[1, 2], result["choice"], "fp32 master, bf16 grad, bf16 copy", "gpt2")
    figure.suptitle(
        f"Adam on {result['gpu']}, {result['date']}, torch {result['torch']}, "
        f"copy {result['copy GB/s']:.0f} GB/s"
    )
    figure.savefig(args.result.with_suffix(".png"), dpi=110)


if __name__ == "__main__":
    main()
