"""After a fork the child gets an error for every use of MPS, where a Mac would hang."""

from __future__ import annotations

import json

import pytest

# Forks once for each statement and reports what became of it in the child.
FORK_EACH = """
import json, os, sys
import torch, mps_ds.softmps as softmps

def in_child(statement):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            exec(statement)
            outcome = "worked"
        except RuntimeError as error:
            outcome = str(error)
        os.write(writer, outcome.encode())
        os._exit(0)
    os.close(writer)
    outcome = os.fdopen(reader).read()
    return outcome if os.waitpid(child, 0)[1] == 0 else "died"

used, statements = json.loads(sys.argv[1])
if used:
    x = torch.zeros(4, device="mps")
outcomes = {statement: in_child(statement) for statement in statements}
print(json.dumps([outcomes, x.tolist() if used else None]))
"""
TOUCH_THE_DEVICE = [
    "torch.ones(3, device='mps')",
    "x.add_(1)",
    "x.sum()",
    "x[0].item()",
    "x.cpu()",
    "x.copy_(torch.ones(4))",
    "x.resize_(100)",
    "torch.mps.synchronize()",
    "torch.mps.Event().record()",
    "torch.mps.empty_cache()",
    "torch.mps.compile_shader('kernel void k(device float* x) {}')",
    "torch.mps._host_alias_storage(x.untyped_storage())",
    "softmps.host_view(x, wait=False)",
    "softmps.pending()",
]
LEAVE_IT_ALONE = [
    "torch.ones(3).sum().item(); torch.manual_seed(1); torch.randn(2)",
    "x.shape, x[1:].device, x.t()",
    "del globals()['x']; import gc; gc.collect()",
]


@pytest.fixture
def fork_each(run_python):
    def run(statements: list[str], used: bool = True) -> tuple[dict[str, str], list[float] | None]:
        argument = json.dumps([used, statements])
        result = run_python(f"import sys; sys.argv = ['', {argument!r}]\n{FORK_EACH}")
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return run


def test_every_use_in_a_child_raises(fork_each) -> None:
    outcomes, parents_values = fork_each(TOUCH_THE_DEVICE)
    for statement, outcome in outcomes.items():
        assert outcome.startswith("MPS was initialised before fork; use spawn."), statement
    assert parents_values == [0, 0, 0, 0]  # untouched, and the parent can go on


def test_what_does_not_touch_the_device_works_in_a_child(fork_each) -> None:
    outcomes, parents_values = fork_each(LEAVE_IT_ALONE)
    assert outcomes == dict.fromkeys(LEAVE_IT_ALONE, "worked")
    assert parents_values == [0, 0, 0, 0]


def test_loading_the_device_before_the_fork_is_enough(fork_each) -> None:
    statement = "torch.ones(3, device='mps')"
    outcomes, _ = fork_each([statement, "torch.ones(3)"], used=False)
    assert "start it with spawn" in outcomes[statement]
    assert outcomes["torch.ones(3)"] == "worked"
