"""The project's kernels as CUDA on this machine's GPU: right, and how fast beside others.

    python benchmarks/gpu/run.py                 # everything but --choice, 2 minutes on an H200
    python benchmarks/gpu/run.py --only adam norm --json results.json
    python benchmarks/gpu/plot.py benchmarks/results/gpu-*.json

Needs PyTorch with CUDA, nvcc and a C++ compiler. See NOTES.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import accuracy
import launch
import peers
import steps
import timings
import torch

RESULTS = Path(__file__).resolve().parents[1] / "results"


def versions() -> dict[str, object]:
    """What was measured, on what."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    shown = subprocess.run(query, capture_output=True, text=True, check=False).stdout
    nvcc = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=False).stdout
    deepspeed = peers.deepspeed_folder()
    return {
        "date": datetime.date.today().isoformat(),
        "gpu": torch.cuda.get_device_name(),
        "driver": shown.strip().rpartition(", ")[2],
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "nvcc": next((w for w in nvcc.split() if w.startswith("V")), ""),
        "deepspeed": (deepspeed / "version.txt").read_text().strip() if deepspeed else None,
        "chunk": steps.ADAM_CHUNK,
        "threads": steps.AdamTypes().threads,
    }


def show(rows: list[dict]) -> None:
    """A line a row."""
    for row in rows:
        words = [f"{row[k]}" for k in ("work", "model", "who", "axis", "count") if k in row]
        for key, value in row.items():
            if isinstance(value, float) and key not in ("low", "high"):
                words.append(
                    f"{key} {100 * value:.2f} %" if "share" in key else f"{key} {value:.4f}"
                )
        print("  " + ", ".join(words), flush=True)


def worst(rows: list[dict]) -> list[dict]:
    """DeepSpeed's comparison, the worst step of each value."""
    best: dict[tuple, dict] = {}
    for row in rows:
        key = (row["type"], row["mode"], row["value"], row["who"])
        if key not in best or row["max"] > best[key]["max"]:
            best[key] = row
    return [{"work": " ".join(key), **row} for key, row in best.items()]


def best_choices(rows: list[dict]) -> list[dict]:
    """The choices that serve all rows best: by the worst loss against the best for each."""
    top: dict[tuple, float] = {}
    for row in rows:
        key = (row["model"], row["kind"])
        top[key] = max(top.get(key, 0.0), row["share of copy"])
    loss: dict[tuple, float] = {}
    for row in rows:
        choice = (row["chunk"], row["threads"])
        lost = top[row["model"], row["kind"]] - row["share of copy"]
        loss[choice] = max(loss.get(choice, 0.0), lost)
    ranked = sorted(loss.items(), key=lambda item: item[1])[:8]
    return [{"work": f"chunk {c}, {t} threads", "share lost at worst": x} for (c, t), x in ranked]


def main() -> None:
    """Run what was asked for and write the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = ("accuracy", "adam", "small", "norm", "mixed", "sizes", "choice")
    parser.add_argument("--only", nargs="+", choices=names, default=names[:-1])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    began = time.monotonic()
    kernels = timings.sources() + (timings.choice_sources() if "choice" in args.only else [])
    kernels += accuracy.sources() if "accuracy" in args.only else []
    with ThreadPoolExecutor(1) as beside:
        extension = beside.submit(peers.extension)
        launch.build_all(kernels)
        extension.result()
    copy = launch.copy_bandwidth()
    results: dict[str, object] = {**versions(), "copy GB/s": copy / 1e6}
    print(f"{results}\nbuilt in {time.monotonic() - began:.0f} s", flush=True)

    def check() -> dict:
        accuracy.check_not_finite()
        found = {"adam": accuracy.check_adam(), "norm": accuracy.check_norms()}
        found["beside DeepSpeed"] = accuracy.compare_with_deepspeed()
        show(worst(found["beside DeepSpeed"]))
        return found

    sections: dict[str, Callable[[], object]] = {
        "accuracy": check,
        "adam": lambda: timings.adam_rows(copy),
        "small": timings.small_rows,
        "norm": lambda: timings.norm_rows(copy),
        "mixed": timings.mixed_step_rows,
        "sizes": timings.size_rows,
        "choice": lambda: timings.choice_rows(copy),
    }
    gpu = str(results["gpu"]).replace(" ", "-").lower()
    path = args.json or RESULTS / f"gpu-{gpu}-{results['date']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    for name in args.only:
        print(f"{name}, after {time.monotonic() - began:.0f} s", flush=True)
        results[name] = rows = sections[name]()
        if name == "choice":
            show(best_choices(rows))
        elif isinstance(rows, list):
            show(rows)
        path.write_text(json.dumps(results, indent=1) + "\n")  # what is measured is not lost
    print(f"{time.monotonic() - began:.0f} s, {path}")


if __name__ == "__main__":
    main()
