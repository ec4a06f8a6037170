"""Training with DeepSpeed on mps is training with DeepSpeed on the CPU.

The judge is DeepSpeed's own code on its own CPU accelerator, with the same Adam (which tests/ops
and tests/optim hold to float64). Then nothing is left that may round differently but the norm, so:

- without clipping, losses, loss scales, skipped steps and params are equal bit for bit;
- the norms that are reported are those of the gradients of that step on that device, in float64,
  to 4 ulp of fp32, at every step; one that is not finite is reported as on the CPU;
- with clipping, the coefficients differ as the norms do, by d relative: 4 * 2^-23 for ours and what
  the judge's own norms are off by. So Adam's means do, and a step by at most 2 d lr |u|, where
  |u| <= (1 - beta1) / sqrt(1 - beta2) < 3.2 is the largest update that Adam makes. Rounding to the
  storage type may then go the other way: one unit of each param. To first order a loss moves by the
  norm of the gradient times that of all these.
"""

from __future__ import annotations

import math

import pytest
import torch
import training_cases
from training_cases import CASES, QUICK
from workers import Outcomes, parameters

RELATIVE_UNIT = {"fp32": 2.0**-23, "bf16": 2.0**-7, "fp16": 2.0**-10, "fp16-dynamic": 2.0**-10}
NORM_ERROR = 4 * 2.0**-23
LARGEST_UPDATE = 3.2


@pytest.fixture(scope="module")
def outcomes(request, tmp_path_factory):
    return Outcomes("training_worker.py", "test_training", request, tmp_path_factory)


@pytest.mark.parametrize(("case", "processes"), parameters(CASES, QUICK, QUICK[2:3]))
def test_mps_trains_as_the_cpu_does(outcomes, case, processes) -> None:
    cpu, mps = outcomes(processes)
    for rank in range(processes):
        expected, told = cpu[rank][str(case)], mps[rank][str(case)]
        assert not isinstance(expected, str), f"the judge failed:\n{expected}"
        assert not isinstance(told, str), told
        assert told["skipped"] == expected["skipped"]
        assert told["scale"] == expected["scale"]
        check_norms(told["norm"], told["exact norm"], expected["norm"])
        if case.clip:
            check_losses(case, told, expected)
        else:
            assert told["loss"] == expected["loss"]
            assert told["params"] == expected["params"]
        check_that_it_trains(case, told)


def check_norms(told: list[float], exact: list[float], on_cpu: list[float]) -> None:
    assert any(math.isfinite(norm) for norm in exact)
    for step, (norm, gradient, other) in enumerate(zip(told, exact, on_cpu, strict=True)):
        if math.isfinite(gradient):
            ulp = torch.finfo(torch.float32).eps * 2 ** math.floor(math.log2(gradient))
            assert abs(norm - gradient) <= 4 * ulp, f"step {step}: {norm}, is {gradient}"
        elif norm == -1 or not math.isfinite(norm):
            assert norm == other, f"step {step}"
        else:  # 0.19.6 leaves what it told before, at first 0
            assert norm == (told[step - 1] if step else 0), f"step {step}"


def check_losses(case, told: dict, expected: dict) -> None:
    text = training_cases.Text()
    params = [p.detach() for p in training_cases.model(text).parameters()]
    count = sum(p.numel() for p in params)
    size = math.sqrt(sum(p.square().sum().item() for p in params))
    norms = zip(expected["norm"], expected["exact norm"], strict=True)
    judge = max(abs(told / exact - 1) for told, exact in norms if math.isfinite(exact))
    per_step = 2 * (NORM_ERROR + judge) * training_cases.LR * LARGEST_UPDATE * math.sqrt(count)
    per_step += RELATIVE_UNIT[case.dtype] * size
    for step, (loss, other) in enumerate(zip(told["loss"], expected["loss"], strict=True)):
        gradient = max(norm for norm in expected["norm"] if math.isfinite(norm))
        assert abs(loss - other) <= step * gradient * per_step, f"step {step}: {loss} and {other}"
    assert told["loss"][0] == expected["loss"][0], "nothing differs before the first step"


def check_that_it_trains(case, told: dict) -> None:
    assert all(math.isfinite(loss) for loss in told["loss"])
    assert told["loss"][-1] < told["loss"][0]
    if case.stage == 0 and case.dtype.startswith("fp16"):
        return  # DeepSpeed does not scale the loss there, so norms are tiny and nothing overflows
    if case.dtype == "fp16-dynamic":
        assert 0 < told["skipped"][-1] < training_cases.STEPS, "some steps overflow, some do not"
    else:
        assert told["skipped"][-1] == 0
    if case.clip:
        finite = [norm for norm in told["norm"] if norm > 0 and math.isfinite(norm)]
        assert all(norm > training_cases.CLIP for norm in finite), "every step is clipped"
