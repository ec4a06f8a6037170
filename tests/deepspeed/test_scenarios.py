"""What programs do with engines is on mps what it is on the CPU, bit for bit (scenarios.py)."""

from __future__ import annotations

import math

import pytest
from scenarios import SCENARIOS
from workers import Outcomes, parameters

pytestmark = pytest.mark.slow  # training in processes of their own: minutes on two cores

QUICK = [
    "accumulation-zero2-bf16",
    "several_groups-zero3-bf16",
    "frozen_and_tied-zero3-bf16",
    "empty_params-zero1-fp32",
    "checkpointing_reentrant_on_the_cpu-zero2-bf16",
    "save_and_resume-zero2-bf16-offload",
    "save_and_resume-zero3-fp32",
]


@pytest.fixture(scope="module")
def outcomes(request, tmp_path_factory):
    return Outcomes("scenario_worker.py", "test_scenarios", request, tmp_path_factory)


@pytest.mark.parametrize(("case", "processes"), parameters(SCENARIOS, QUICK, []))
def test_mps_does_as_the_cpu_does(outcomes, case, processes) -> None:
    cpu, mps = outcomes(processes)
    for rank in range(processes):
        expected, told = cpu[rank][case], mps[rank][case]
        assert not isinstance(expected, str), f"the judge failed:\n{expected}"
        assert not isinstance(told, str), told
        assert told == expected
        assert all(map(math.isfinite, told))
        assert len(set(told)) == len(told), "each step changes the model"
