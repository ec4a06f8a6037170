"""deepspeed.comm on mps tensors writes what is written by hand in comm_cases.py."""

from __future__ import annotations

import pytest
import workers
from comm_cases import CASES, EXPECTED


@pytest.fixture(scope="module")
def told(request, tmp_path_factory) -> list[dict]:
    """What both processes got, of all cases that were chosen."""
    names = [
        item.callspec.params["name"] for item in request.session.items if item.fspath == __file__
    ]
    return workers.run("comm_worker.py", tmp_path_factory.mktemp("comm"), "mps", 2, names)


@pytest.mark.parametrize("name", CASES)
def test_both_processes_get_what_they_have_to(told, name) -> None:
    for rank, expected in enumerate(EXPECTED[name]):
        assert not isinstance(told[rank][name], str), told[rank][name]
        assert told[rank][name] == expected, f"process {rank}"
