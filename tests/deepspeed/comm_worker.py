"""comm_worker.py DEVICE RANK PROCESSES STORE RESULTS CASE...: run cases of comm_cases.py."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
from comm_cases import CASES
from training_worker import finish, outcomes, start


def plain(value: object) -> object:
    """Lists of numbers of tensors, to compare and to save."""
    return value.tolist() if isinstance(value, torch.Tensor) else value


def main(device: str, rank: int, processes: int, store: str, results: str, names: set[str]) -> None:
    start(device, rank, processes, store)
    told = outcomes(CASES, names, lambda name: [plain(value) for value in CASES[name](rank)])
    torch.save(told, results)
    finish()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:6], set(sys.argv[6:]))
