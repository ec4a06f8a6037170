"""Every comparison runs on every device, does its work, and stays within the memory it declares."""

import pytest
import torch
from bench_peak import Peak

from mps_ds.bench import adam, compare, gradients, host, mixed, resources, target
from mps_ds.bench.cases import Case
from mps_ds.bench.shapes import Shapes

SHAPES = Shapes("test", "a few tensors", [(300, 7), (4096,), (1000,)])
LARGER = Shapes("larger", "larger tensors", [(1 << 18,)] * 4)


def device_cases(shapes: Shapes) -> list[Case]:
    lists = [shapes]
    return [*adam.cases(lists), *gradients.cases(lists), *mixed.cases(lists)]


def named(cases):
    return [pytest.param(case, id=f"{case.group}-{case.name}") for case in cases]


ALL = [*device_cases(SHAPES), *resources.cases((7,))]


@pytest.mark.parametrize("case", named(ALL))
def test_on_the_software_device_ours_moves_what_it_must_and_little_more(software, case):
    result = compare.run(case, target.mps(software=True), 1, None)
    assert [row.error for row in result.rows if row.error] == []
    assert result.rows[0].ours
    for row in result.rows:
        counts = row.counts
        assert row.timing is row.ratio is row.bandwidth_share is None
        assert counts.bytes >= row.least_bytes, row
        if row.ours:
            # Beside the tensors only tables, partial results and scalars.
            assert counts.bytes <= 1.2 * row.least_bytes, row
            assert (counts.commits, counts.waits, counts.host_reads) == (0, 0, 0)
            assert 1 <= counts.dispatches <= 3
        else:
            assert (counts.dispatches, counts.declared) == (0, 0)
            assert counts.operators > 0


@pytest.mark.parametrize("case", named([*ALL, *host.cases([SHAPES])]))
def test_timed_on_the_cpu(case):
    result = compare.run(case, target.cpu(), 1, bandwidth=1e10)
    assert [row.error for row in result.rows if row.error] == []
    assert result.rows[0].ratio == 1.0
    for row in result.rows:
        assert row.counts is None
        assert row.timing.seconds >= row.timing.host_seconds > 0
        assert row.bandwidth_share == pytest.approx(row.least_bytes / row.timing.seconds / 1e10)


@pytest.mark.parametrize("case", named(device_cases(LARGER)))
def test_no_more_memory_than_it_declares(mps, case):
    """Every operator's temporaries included, of each contestant."""
    before = torch.mps.current_allocated_memory()
    with Peak() as peak:
        for contestant in case.make("mps").values():
            contestant.work()
    assert LARGER.elements < peak.bytes - before <= case.needs * 1.01  # tables and scalars


def test_a_declared_resource_has_its_price(software):
    (case,) = resources.cases((7,))
    result = compare.run(case, target.mps(software=True), 1, None)
    one, many = (row.counts for row in result.rows)
    assert (one.declared, many.declared) == (4, 28)
    assert many.declared - one.declared == resources.extra_buffers(case)
    assert result.notes == ["24 buffers more are declared; what one costs only a Mac can tell."]
    timed = compare.run(case, target.cpu(), 1, None)
    assert "us of it on the host (24 buffers more)" in timed.notes[0]
