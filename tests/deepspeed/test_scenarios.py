"""What programs do with engines is on mps what it is on the CPU, bit for bit (scenarios.py)."""

from __future__ import annotations

import math

import pytest
from scenarios import SCENARIOS
from workers import Outcomes, parameters


@pytest.fixture(scope="module")
def outcomes(request, tmp_path_factory):
    return Outcomes("scenario_worker.py", "test_scenarios", request, tmp_path_factory)


@pytest.mark.parametrize(("case", "processes"), parameters(SCENARIOS, [], []))
def test_mps_does_as_the_cpu_does(outcomes, case, processes) -> None:
    cpu, mps = outcomes(processes)
    for rank in range(processes):
        expected, told = cpu[rank][case], mps[rank][case]
        assert not isinstance(expected, str), f"the judge failed:\n{expected}"
        assert not isinstance(told, str), told
        assert told == expected
        assert all(map(math.isfinite, told))
        assert len(set(told)) == len(told), "each step changes the model"
