"""What a part of a program costs: ``with mps_ds.softmps.count() as c: ...; print(c)``."""

from __future__ import annotations

import threading
from dataclasses import astuple, dataclass
from types import TracebackType
from typing import Any

from . import _C

# Program counters that a Count shows; the others belong to the stand-in.
_TOTALS = (
    "commits",
    "waits",
    "host_reads",
    "host_writes",
    "command_buffers",
    "encoders",
    "dispatches",
)


@dataclass(frozen=True)
class OpCount:
    """Calls of an ATen operator.

    Attributes:
        calls: how often it reached the device.
        bytes_in: bytes of the tensor elements that it read; what a broadcast repeats counts once.
        bytes_out: bytes of the elements that it wrote, results included.
        host_reads: how often it read a value back to the host.
        waits: how often it waited for the device.
    """

    calls: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    host_reads: int = 0
    waits: int = 0

    def _plus(self, other: OpCount, sign: int = 1) -> OpCount:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return OpCount(*(mine + sign * others for mine, others in pairs))


@dataclass
class _Sums:
    """What the counters say at one moment, or what happened between two."""

    totals: dict[str, int]
    ops: dict[str, OpCount]
    kernels: dict[str, dict[str, int]]

    @classmethod
    def nothing(cls) -> _Sums:
        return cls(dict.fromkeys(_TOTALS, 0), {}, {})

    @classmethod
    def now(cls) -> _Sums:
        counters = _C.counters()
        ops = {name: OpCount(*counts) for name, counts in _C.op_counts().items()}
        return cls({name: counters[name] for name in _TOTALS}, ops, counters["kernels"])

    def plus(self, other: _Sums, sign: int = 1) -> _Sums:
        totals = {name: self.totals[name] + sign * other.totals[name] for name in _TOTALS}
        ops = {
            name: self.ops.get(name, OpCount())._plus(other.ops.get(name, OpCount()), sign)
            for name in {**self.ops, **other.ops}
        }
        kernels: dict[str, dict[str, int]] = {}
        for name in {**self.kernels, **other.kernels}:
            mine, others = self.kernels.get(name, {}), other.kernels.get(name, {})
            kernels[name] = {
                key: mine.get(key, 0) + sign * others.get(key, 0) for key in {**mine, **others}
            }
        return _Sums(
            totals,
            {name: op for name, op in ops.items() if op.calls},
            {name: kernel for name, kernel in kernels.items() if kernel["dispatches"]},
        )


_lock = threading.Lock()  # for the list, and for a reset against all that count
_counting: list[Count] = []


class Count:
    """What happened on the device while it was entered, by all threads of the process.

    Made by :func:`count`. It can be read inside the ``with`` block too: so far.

    Attributes:
        ops: :class:`OpCount` by name (``"aten::add.Tensor"``), of the ATen operators that compute
            or copy. Those that only allocate, or make a view, and composites that consist of
            others, do not count.
        kernels: counters of Metal kernels by name, as in :func:`counters`.
        bytes_in, bytes_out: sums over ``ops``. What a kernel moves is not known here.
        host_reads, host_writes, waits, commits: what the program did, as in :func:`counters`.
        command_buffers, encoders, dispatches: of the device. An operator that finds kernels pending
            has them run, so there can be more command buffers and encoders than on a Mac.
    """

    def __init__(self) -> None:
        self._start = _Sums.nothing()
        self._before_resets = _Sums.nothing()
        self._result: _Sums | None = None

    def __enter__(self) -> Count:
        with _lock:
            self._start = _Sums.now()
            self._before_resets = _Sums.nothing()
            self._result = None
            _counting.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with _lock:
            self._result = self._so_far()
            _counting.remove(self)

    def _so_far(self) -> _Sums:
        return self._before_resets.plus(_Sums.now().plus(self._start, -1))

    def _survive_reset(self) -> None:
        self._before_resets = self._so_far()
        self._start = _Sums.nothing()

    @property
    def _sums(self) -> _Sums:
        if self._result is not None:
            return self._result
        with _lock:
            return self._so_far() if self in _counting else _Sums.nothing()

    @property
    def ops(self) -> dict[str, OpCount]:
        return self._sums.ops

    @property
    def kernels(self) -> dict[str, dict[str, int]]:
        return self._sums.kernels

    @property
    def bytes_in(self) -> int:
        return sum(op.bytes_in for op in self.ops.values())

    @property
    def bytes_out(self) -> int:
        return sum(op.bytes_out for op in self.ops.values())

    def __getattr__(self, name: str) -> Any:
        if name in _TOTALS:
            return self._sums.totals[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __str__(self) -> str:
        sums = self._sums
        width = max([len(name) for name in (*sums.ops, *sums.kernels)] + [len("total")])
        head = ("calls", "bytes in", "bytes out", "host reads", "waits")
        rows = sorted(sums.ops.items(), key=lambda item: -item[1].bytes_in - item[1].bytes_out)
        total = OpCount()
        for _, op in rows:
            total = total._plus(op)
        lines = [_row("operator", head, width)]
        lines += [_row(name, astuple(op), width) for name, op in rows]
        lines.append(_row("total", astuple(total), width))
        if sums.kernels:
            names = ("dispatches", "threadgroups", "threads", "encoders", "declared")
            lines += ["", _row("kernel", names, width)]
            lines += [
                _row(name, tuple(kernel[key] for key in names), width)
                for name, kernel in sums.kernels.items()
            ]
        program = ("commits", "waits", "host_reads", "host_writes")
        lines += ["", ", ".join(f"{name} {sums.totals[name]:,}" for name in program)]
        return "\n".join(lines)


def _row(name: str, values: tuple[Any, ...], width: int) -> str:
    cells = (f"{value:,}" if isinstance(value, int) else str(value) for value in values)
    return f"{name:<{width}}" + "".join(f"{cell:>16}" for cell in cells)


def count() -> Count:
    """Count what a part of a program does on the device::

        with mps_ds.softmps.count() as c:
            optimizer.step()
        print(c)                    # a table
        assert c.host_reads == 0

    Counts may be nested and used in several threads; each sees what all threads do.
    :func:`reset_counters` does not disturb them.
    """
    return Count()


def reset_counters() -> None:
    """Set the counters of :func:`counters` to zero and forget the kernel names."""
    with _lock:
        for entered in _counting:
            entered._survive_reset()
        _C.reset_counters()
