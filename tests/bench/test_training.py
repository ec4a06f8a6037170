"""--train: phases, the sentence that tells what they mean, memory."""

import pytest
import torch
from bench_peak import Peak

from mps_ds.bench import training
from mps_ds.bench.target import Target
from mps_ds.selftest.gpt import Shape

CPU = Target("cpu", 1 << 30)


def steps(default: float, fused: float, ours: float, rest: float = 100.0):
    optimizers = {"for-loop": default, "fused": fused, "FusedAdam": ours}
    return {
        name: {"forward": 0.4 * rest, "backward": 0.6 * rest, "optimizer": seconds}
        for name, seconds in optimizers.items()
    }


def test_little_to_gain_is_said_plainly():
    text = training.verdict(steps(default=10, fused=3, ours=2))
    assert text.startswith("The optimizer is 9% of a step with torch's default (for-loop), 3%")
    assert "7.3% less time than with the default, 1.0% less than with the fastest" in text
    assert "There is little to gain here: forward and backward are 98% of that step." in text


def test_a_gain_is_not_talked_down():
    text = training.verdict(steps(default=100, fused=50, ours=10))
    assert "45.0% less time than with the default, 26.7% less than with the fastest" in text
    assert "little" not in text
    assert "nothing" not in text


def test_a_loss_is_named():
    text = training.verdict(steps(default=10, fused=3, ours=5))
    assert "1.9% MORE than with the fastest" in text
    assert "nothing to gain" in text


def test_phases_and_optimizers(small_sizes):
    found = training.run(CPU, quick=True)
    assert list(found["steps"]) == [
        "torch AdamW, for-loop",
        "torch AdamW, fused",
        "torch AdamW, foreach",
        "mps_ds CPUAdam",
    ]
    for phases in found["steps"].values():
        assert set(phases) == {"forward", "backward", "optimizer"}
        assert min(phases.values()) > 0
    assert found["verdict"].startswith("The optimizer is")


def test_every_optimizer_steps_the_same_model(small_sizes):
    prepared = training.prepare(training.GPT2, 2, 8, "cpu")
    params = list(prepared.model.parameters())
    for work in prepared.optimizers.values():
        before = [param.detach().clone() for param in params]
        prepared.forward().backward()
        work()
        assert all((p != b).any() for p, b in zip(params, before, strict=True))
        norm = torch.nn.utils.get_total_norm([param.grad for param in params])
        assert norm <= training.MAX_NORM * 1.001


def test_the_largest_batch_that_fits():
    fits = training.needs(training.GPT2, 2, 512)
    assert training.largest_batch(training.GPT2, fits) == (2, 512)
    assert training.largest_batch(training.GPT2, fits - 1) == (1, 512)
    assert training.largest_batch(training.GPT2, 1 << 30) is None


def test_too_little_memory_is_said(small_sizes, capsys):
    found = training.run(Target("cpu", 1000), quick=False)
    assert "more than the 0.0 GiB that the bench allows itself" in found["skipped"]
    assert "left out" in capsys.readouterr().out


@pytest.mark.parametrize("length", [32, 128])
def test_no_more_memory_than_it_says(mps, length):
    shape = Shape(vocabulary=1000, context=128, width=64, heads=4, layers=3)
    before = torch.mps.current_allocated_memory()
    with Peak() as peak:
        prepared = training.prepare(shape, 2, length, "mps")
        for work in prepared.optimizers.values():
            prepared.forward().backward()
            work()
    assert peak.bytes - before <= training.needs(shape, 2, length)
