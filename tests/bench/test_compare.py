"""What a run does with memory, failures and groups."""

import pytest
import torch

from mps_ds.bench import compare, host, shapes, target
from mps_ds.bench.cases import Case, Contestant
from mps_ds.bench.shapes import Shapes
from mps_ds.bench.target import Target

ONE = Shapes("one", "one tensor", [(3,)])
CPU = Target("cpu", 1 << 30)


def nothing() -> None:
    pass


def fails() -> None:
    raise RuntimeError("not in this PyTorch\nand many more lines")


def case(make, needs: int = 0) -> Case:
    return Case("adam", "test", "a test", ONE, needs, make)


def contestants(**works):
    return lambda device: {
        name: Contestant(work, 1, name.startswith("ours")) for name, work in works.items()
    }


def test_half_of_the_recommended_memory(monkeypatch, mps):
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 1000)
    assert target.mps(software=False).budget == 500


def test_what_needs_more_than_the_budget_is_never_made():
    def make(device):
        raise AssertionError("made")

    result = compare.run(case(make, needs=3 << 30), Target("cpu", 2 << 30), 1, None)
    assert result.rows == []
    assert result.skipped.startswith("it needs 3.0 GiB, more than the 2.0 GiB")


def test_sizes_of_real_models_are_held_against_the_budget():
    """Llama-1B's states alone are 10 GB."""
    lists = [shapes.gpt2(), shapes.llama_1b()]
    needs = {each.name: each.needs for each in host.cases(lists)}
    assert needs["fp32-gpt2"] < 4 << 30 < 10 << 30 < needs["fp32-llama1b"]


def test_memory_is_given_back_after_each():
    freed = []
    place = Target("cpu", 1 << 30, empty_cache=lambda: freed.append(True))
    compare.run(case(contestants(ours=nothing)), place, 1, None)
    compare.run(case(contestants(ours=fails)), place, 1, None)
    assert len(freed) == 2


def test_a_contestant_that_fails_stops_no_other():
    result = compare.run(case(contestants(ours=nothing, theirs=fails, last=nothing)), CPU, 1, None)
    ours, theirs, last = result.rows
    assert theirs.error == "RuntimeError: not in this PyTorch"
    assert theirs.timing is None
    assert ours.ratio == 1.0
    assert last.ratio > 0


def test_without_ours_there_is_no_ratio():
    ours, theirs = compare.run(case(contestants(ours=fails, theirs=nothing)), CPU, 1, None).rows
    assert ours.error
    assert (theirs.ratio, theirs.error) == (None, "")


def test_what_cannot_be_made_is_ours_to_answer_for():
    def make(device):
        fails()

    (row,) = compare.run(case(make), CPU, 1, None).rows
    assert row.ours
    assert row.error == "RuntimeError: not in this PyTorch"


@pytest.mark.parametrize("group", compare.GROUPS)
def test_only_the_groups_asked_for(group):
    for place in (Target("mps", 1), CPU):
        found = {each.group for each in compare.cases(place, [group], quick=True)}
        assert found == ({group} if (group == "cpu") == (place is CPU) else set())


def test_quick_leaves_out_the_largest():
    names = {each.shapes.name for each in compare.cases(CPU, ["cpu"], quick=False)}
    fewer = {each.shapes.name for each in compare.cases(CPU, ["cpu"], quick=True)}
    assert names - fewer == {"llama1b"}


def test_names_are_unique_in_a_group():
    cases = compare.cases(Target("mps", 1), compare.GROUPS, quick=False)
    names = [(each.group, each.name) for each in cases]
    assert len(set(names)) == len(names)
