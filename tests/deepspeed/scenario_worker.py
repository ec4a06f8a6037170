"""scenario_worker.py DEVICE RANK PROCESSES STORE RESULTS SCENARIO...: as training_worker.py."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
from scenarios import SCENARIOS, Run
from training_worker import finish, start


def main(device: str, rank: int, processes: int, store: str, results: str, names: set[str]) -> None:
    start(device, rank, processes, store)
    run = Run(device, rank, processes, Path(results).parent)
    told: dict[str, list[float] | str] = {}
    for name in SCENARIOS:
        if name in names:
            try:
                told[name] = SCENARIOS[name](run)
            except Exception:
                told[name] = traceback.format_exc()
    torch.save(told, results)
    finish()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:6], set(sys.argv[6:]))
