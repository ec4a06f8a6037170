"""Two processes, started by torchrun, train as one that accumulates their batches: all strategies.

One process with accumulate_grad_batches=2 takes the mean of the gradients of two batches, g0/2 +
g1/2. Two processes take the same mean, and gloo adds two numbers as everybody does. So in float32
losses and params are equal bit for bit. 16-bit gradients are added in 16 bits by DeepSpeed: there a
resumed run is compared with the unbroken one, and the processes with each other.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import zero_training
from zero_training import NAMES, STEPS, ParamsAtEnd, data, equal, losses, module, trainer

pytest.importorskip("deepspeed.runtime")
pytest.importorskip("lightning.pytorch")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.backends.mps.is_available(), reason="no mps device"),
]

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    """What the two processes told, by precision."""
    told: dict[str, list[dict]] = {}

    def run(precision: str) -> list[dict]:
        if precision not in told:
            told[precision] = torchrun(tmp_path_factory.mktemp("two"), precision)
        return told[precision]

    return run


def torchrun(folder: Path, precision: str) -> list[dict]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("DS_", "MPS_DS_DEEP"))}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), *sys.path]))
    environment["OMP_NUM_THREADS"] = "1"
    if sys.platform != "darwin":
        environment["MPS_DS_SOFT"] = "1"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    script = [HERE / "zero_two_processes.py", folder, precision, *NAMES, "mps_replicas"]
    command = [*launcher, "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", *script]
    ran = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=1500
    )
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[-6000:]
    return [torch.load(folder / f"rank{rank}.pt") for rank in range(2)]


@pytest.fixture(scope="module")
def in_turn():
    """One process without DeepSpeed: the losses of each process's batches, and the params."""
    import lightning.pytorch as pl

    told, end = module(pl), ParamsAtEnd.callback(pl)
    trainer(pl, "auto", accumulate_grad_batches=2, callbacks=[end]).fit(told, data(2 * STEPS))
    return [losses(told)[rank::2] for rank in range(2)], end.params


@pytest.mark.parametrize("name", [*NAMES, "mps_replicas"])
def test_float32_losses_and_params_are_those_of_one_process(two_processes, in_turn, name) -> None:
    expected, params = in_turn
    for rank, told in enumerate(two_processes("32-true")):
        assert told[name]["losses"] == expected[rank]
        assert equal(told[name]["params"], params)


@pytest.mark.parametrize("name", ["mps_zero2", "mps_replicas"])
def test_fabric_too(two_processes, name) -> None:
    network = zero_training.network().to("mps")
    optimizer, _ = zero_training.optimizer_of(network.parameters())
    expected = []
    for index, batch in enumerate(data(2 * STEPS)):
        loss = zero_training.loss_of(network, batch.to("mps"))
        expected.append(loss.item())
        (loss / 2).backward()
        if index % 2:
            optimizer.step()
            optimizer.zero_grad()
    for rank, told in enumerate(two_processes("32-true")):
        assert told[f"fabric {name}"] == {"losses": expected[rank::2], "sum": 3.0}


@pytest.mark.parametrize("precision", ["32-true", "16-mixed", "bf16-mixed"])
@pytest.mark.parametrize("name", [*NAMES, "mps_replicas"])
def test_a_resumed_run_is_the_unbroken_one(two_processes, name, precision) -> None:
    first, second = two_processes(precision)
    for told in (first, second):
        (resumed, resumed_params), (unbroken, params) = (
            told[name]["resumed"],
            told[name]["unbroken"],
        )
        assert resumed == unbroken
        assert equal(resumed_params, params)
    assert equal(first[name]["params"], second[name]["params"]), "all processes have the same"
    assert first[name]["losses"] != second[name]["losses"], "of batches of their own"


def test_lightning_shares_out_the_samples(two_processes) -> None:
    first, second = (told["shared out"] for told in two_processes("32-true"))
    assert first == list(range(0, 10, 2))
    assert second == list(range(1, 10, 2))
