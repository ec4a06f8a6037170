"""Starts the processes of a DeepSpeed run, on one device, and collects what they saved."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent


def run(script: str, folder: Path, device: str, processes: int, names: list[str]) -> list[dict]:
    """What each process of `script` told of the named cases; see training_worker.py."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("DS_", "MPS_DS_DEEP"))}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    environment["OMP_NUM_THREADS"] = "1"
    if sys.platform != "darwin" and device == "mps":
        environment["MPS_DS_SOFT"] = "1"
    results = [folder / f"{device}{rank}.pt" for rank in range(processes)]
    command = [sys.executable, HERE / script, device]
    running = [
        subprocess.Popen(
            [*command, str(rank), str(processes), folder / device, results[rank], *names],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(processes)
    ]
    said = [process.communicate(timeout=3000)[0] for process in running]
    assert not any(p.returncode for p in running), "\n".join(text[-4000:] for text in said)
    return [torch.load(result) for result in results]


class Outcomes:
    """Outcomes on (cpu, mps) of the chosen tests; all run in one go: starting takes longest."""

    def __init__(self, script: str, module: str, request, tmp_path_factory) -> None:
        self._script, self._folders = script, tmp_path_factory
        self._names: dict[int, list[str]] = {}
        self._made: dict[int, tuple[list[dict], list[dict]]] = {}
        for item in request.session.items:
            params = getattr(getattr(item, "callspec", None), "params", {})
            if item.path.stem == module and "processes" in params:
                self._names.setdefault(params["processes"], []).append(str(params["case"]))

    def __call__(self, processes: int) -> tuple[list[dict], list[dict]]:
        if processes not in self._made:
            folder = self._folders.mktemp(f"{Path(self._script).stem}-{processes}")
            names = self._names[processes]
            self._made[processes] = (
                run(self._script, folder, "cpu", processes, names),
                run(self._script, folder, "mps", processes, names),
            )
        return self._made[processes]


def parameters(cases, quick, quick_alone):
    """All cases in one and two processes; slow but for the `quick`, of which few run alone."""
    return [
        pytest.param(
            case,
            processes,
            marks=[] if case in (quick if processes == 2 else quick_alone) else pytest.mark.slow,
            id=f"{case}-{processes}",
        )
        for processes in (1, 2)
        for case in cases
    ]
