"""Runs comparisons, one after the other, and none that would take too much memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from . import adam, gradients, host, mixed, resources, shapes
from .cases import Case, Contestant
from .counting import count
from .results import Result, Row
from .target import Target
from .timing import time_works

GROUPS = (adam.GROUP, gradients.GROUP, mixed.GROUP, resources.GROUP, host.GROUP)
ROUNDS, QUICK_ROUNDS = 15, 5
ERROR_LENGTH = 200


def cases(target: Target, groups: Iterable[str], quick: bool) -> list[Case]:
    """What `groups` hold for this device; the largest last, so that a table comes soon."""
    lists = shapes.countable() if target.counts else shapes.quick() if quick else shapes.full()
    lists.sort(key=lambda each: each.elements)
    if target.device == "cpu":
        return host.cases(lists) if host.GROUP in groups else []
    counts = (50, 300) if target.counts else (150, 2000)
    found = {
        adam.GROUP: adam.cases(lists),
        gradients.GROUP: gradients.cases(lists),
        mixed.GROUP: mixed.cases(lists),
        resources.GROUP: resources.cases(counts),
    }
    return [case for group in found if group in groups for case in found[group]]


def run(case: Case, target: Target, rounds: int, bandwidth: float | None) -> Result:
    """One comparison. A contestant that fails does not stop the others."""
    result = Result(case, target.device)
    if case.needs > target.budget:
        result.skipped = (
            f"it needs {case.needs / 2**30:.1f} GiB, more than the {target.budget / 2**30:.1f} GiB "
            "that the bench allows itself"
        )
        return result
    contestants: Mapping[str, Contestant] = {}
    try:
        contestants = case.make(target.device)
        measure = _count if target.counts else _time
        result.rows = measure(contestants, target, rounds, bandwidth)
        if case.group == resources.GROUP:
            result.notes = _price(result.rows, resources.extra_buffers(case))
    except Exception as error:  # the tensors or our first step; other comparisons still run
        result.rows = [Row("making it", ours=True, error=describe(error))]
    finally:
        del contestants
        target.free()
    return result


def _count(contestants: Mapping[str, Contestant], *_: object) -> list[Row]:
    rows = []
    for name, contestant in contestants.items():
        row = Row(name, contestant.ours, contestant.least_bytes)
        try:
            row.counts = count(contestant.work)
        except Exception as error:  # whatever it is, the others still run
            row.error = describe(error)
        rows.append(row)
    return rows


def _time(
    contestants: Mapping[str, Contestant],
    target: Target,
    rounds: int,
    bandwidth: float | None,
) -> list[Row]:
    rows = {name: Row(name, c.ours, c.least_bytes) for name, c in contestants.items()}
    for name, contestant in contestants.items():
        try:
            contestant.work()
            target.synchronize()
        except Exception as error:  # not in this PyTorch, or out of memory: the others still run
            rows[name].error = describe(error)
    works = {name: c.work for name, c in contestants.items() if not rows[name].error}
    timings = time_works(works, target, rounds)
    first = next(iter(contestants))
    for name, timing in timings.items():
        row = rows[name]
        row.timing = timing
        if first in timings:
            row.ratio = timing.seconds / timings[first].seconds
        if bandwidth:
            row.bandwidth_share = row.least_bytes / timing.seconds / bandwidth
    return list(rows.values())


def describe(error: Exception) -> str:
    """A line: PyTorch's messages can be pages."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:ERROR_LENGTH]


def _price(rows: list[Row], buffers: int) -> list[str]:
    """Of one declared resource, from a step over few of them and one over many."""
    one, many = rows
    if one.counts and many.counts:
        more = many.counts.declared - one.counts.declared
        return [f"{more:,} buffers more are declared; what one costs only a Mac can tell."]
    if one.timing and many.timing:
        whole = (many.timing.seconds - one.timing.seconds) / buffers
        on_host = (many.timing.host_seconds - one.timing.host_seconds) / buffers
        return [
            f"A declared buffer costs {whole * 1e6:.2f} us, {on_host * 1e6:.2f} us of it on the "
            f"host ({buffers:,} buffers more)."
        ]
    return []
