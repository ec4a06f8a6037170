"""scenario_worker.py DEVICE RANK PROCESSES STORE RESULTS SCENARIO...: as training_worker.py."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
from scenarios import SCENARIOS, Run
from training_worker import finish, outcomes, start


def main(device: str, rank: int, processes: int, store: str, results: str, names: set[str]) -> None:
    start(device, rank, processes, store)
    run = Run(device, rank, processes, Path(results).parent)
    torch.save(outcomes(SCENARIOS, names, lambda name: SCENARIOS[name](run)), results)
    finish()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:6], set(sys.argv[6:]))
