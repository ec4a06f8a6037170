"""What kernels do to memory: bytes that they move, and data races. See `tracing`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ._C import Buffer, gpu_address_of, read_trace, reset_trace, set_settings, settings


class DataRaceError(RuntimeError):
    """Kernels raced: `races` has what `tracing` found, the message describes them."""

    def __init__(self, races: tuple[Race, ...], left_out: int) -> None:
        more = f"\n(and {left_out} more)" if left_out else ""
        super().__init__("\n".join(race.text for race in races) + more)
        self.races = races


@dataclass(frozen=True)
class Traffic:
    """Accesses of kernels to memory. An atomic operation that reads and writes is both."""

    reads: int = 0
    writes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    distinct_read: int = 0  # bytes, each once for every dispatch
    distinct_written: int = 0
    atomics: int = 0  # of reads and writes
    read_widths: Mapping[int, int] = field(default_factory=dict)  # bytes of an access: how many
    write_widths: Mapping[int, int] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Bytes moved: read and written, by every access that the kernel executed."""
        return self.bytes_read + self.bytes_written

    @property
    def distinct(self) -> int:
        """Bytes that a dispatch has to move: each that it reads once, each that it writes once."""
        return self.distinct_read + self.distinct_written

    def __add__(self, other: Traffic) -> Traffic:
        def sum_of(name: str) -> Any:
            mine, theirs = getattr(self, name), getattr(other, name)
            if not isinstance(mine, Mapping):
                return mine + theirs
            widths = sorted({*mine, *theirs})
            return {width: mine.get(width, 0) + theirs.get(width, 0) for width in widths}

        return Traffic(**{name: sum_of(name) for name in self.__dataclass_fields__})


def total(traffic: Iterator[Traffic]) -> Traffic:
    """The sum."""
    return sum(traffic, Traffic())


@dataclass(frozen=True)
class TracedBuffer:
    """One buffer as one kernel used it."""

    label: str  # of the buffer
    argument: str  # parameter of the kernel that it was bound to; "" if it was only declared
    table: str  # of a declared buffer: the argument in which the kernel found its address,
    table_offset: int  # and at which byte of it
    address: int  # gpuAddress
    length: int
    set_bytes: bool  # data of setBytes:
    traffic: Traffic

    @property
    def name(self) -> str:
        """The label; else the argument, "rows+8" for an address in a table, or the address."""
        if self.label and not self.set_bytes:
            return self.label
        if self.argument:
            return self.argument
        return f"{self.table}+{self.table_offset}" if self.table else hex(self.address)


@dataclass(frozen=True)
class TracedKernel:
    """All dispatches of a kernel."""

    name: str
    dispatches: int = 0
    buffers: tuple[TracedBuffer, ...] = ()
    threadgroup: Mapping[str, Traffic] = field(default_factory=dict)  # by variable or argument

    @property
    def bound(self) -> Traffic:
        """Buffers that were set as arguments, and data of setBytes:."""
        return total(b.traffic for b in self.buffers if b.argument)

    @property
    def declared(self) -> Traffic:
        """Buffers that were declared with useResource: only, reached through addresses."""
        return total(b.traffic for b in self.buffers if not b.argument)

    @property
    def device(self) -> Traffic:
        """All buffers."""
        return total(b.traffic for b in self.buffers)

    def of(self, *memory: Any) -> Traffic:
        """Of some buffers: each a `Buffer`, an `mps` tensor (its whole storage) or a name.

        Raises LookupError if the kernel had no such buffer.
        """
        return total(b.traffic for b in self._buffers(memory))

    def _buffers(self, wanted: tuple[Any, ...]) -> list[TracedBuffer]:
        found: list[TracedBuffer] = []
        for one in wanted:
            keys = ("name", "argument", "label") if isinstance(one, str) else ("address",)
            value = one if isinstance(one, str) else _address(one)
            matches = [b for b in self.buffers if value in [getattr(b, key) for key in keys]]
            if not matches:
                names = sorted({b.name for b in self.buffers})
                shown = repr(one) if isinstance(one, str) else f"the buffer at {value:#x}"
                raise LookupError(f"kernel {self.name!r} had no buffer {shown}; it had {names}")
            found += [b for b in matches if b not in found]
        return found


def _address(memory: Any) -> int:
    if isinstance(memory, Buffer):
        return memory.gpu_address
    if getattr(memory, "is_mps", False):
        return gpu_address_of(memory.untyped_storage().data_ptr())
    raise TypeError(f"expected a Buffer, an mps tensor or a name, got {type(memory).__name__}")


@dataclass(frozen=True)
class RacingAccess:
    """One of the two accesses of a race."""

    kernel: str
    write: bool
    atomic: bool
    thread: tuple[int, int, int]  # thread_position_in_threadgroup
    threadgroup: tuple[int, int, int]  # threadgroup_position_in_grid
    line: str  # "file:line:column"; "" if it is not known


@dataclass(frozen=True)
class Race:
    """Two accesses of different threads to one byte, at least one a write, in no order."""

    memory: str  # which buffer or threadgroup variable, in words
    offset: int  # byte in it
    first: RacingAccess
    second: RacingAccess
    text: str  # all of it


class Tracing:
    """What has been traced. Counts are complete once the command buffers are."""

    def __init__(self) -> None:
        self._final: dict[str, Any] | None = None

    def _read(self) -> dict[str, Any]:
        if self._final is not None:
            return self._final
        _wait_for_mps()
        return read_trace()

    def _finish(self) -> None:
        self._final = self._read()

    @property
    def kernels(self) -> dict[str, TracedKernel]:
        """By name."""
        return {name: _kernel(name, k) for name, k in self._read()["kernels"].items()}

    @property
    def races(self) -> tuple[Race, ...]:
        """One for each pair of places in the source; at most 50 of one encoder."""
        return tuple(_race(race) for race in self._read()["races"])

    @property
    def races_left_out(self) -> int:
        """Races beyond those."""
        return int(self._read()["races_left_out"])

    def table(self) -> str:
        """A table for people: kernels, their buffers, bytes, widths."""
        lines = [f"{'kernel / buffer':40} {'read':>12} {'written':>12} {'distinct':>12}  widths"]
        for kernel in self.kernels.values():
            lines.append(f"{kernel.name} ({kernel.dispatches} dispatches)")
            rows = [(b.name, b.traffic) for b in kernel.buffers]
            rows += [(f"threadgroup {name}", t) for name, t in kernel.threadgroup.items()]
            for name, t in rows:
                widths = " ".join(map(str, sorted({*t.read_widths, *t.write_widths})))
                lines.append(
                    f"  {name:38} {t.bytes_read:>12} {t.bytes_written:>12} {t.distinct:>12}  "
                    f"{widths}"
                )
        return "\n".join(lines)


def _kernel(name: str, raw: dict[str, Any]) -> TracedKernel:
    buffers = [TracedBuffer(**{**b, "traffic": Traffic(**b["traffic"])}) for b in raw["buffers"]]
    threadgroup = {variable: Traffic(**t) for variable, t in raw["threadgroup"].items()}
    return TracedKernel(name, raw["dispatches"], tuple(buffers), threadgroup)


def _race(raw: dict[str, Any]) -> Race:
    accesses = {which: RacingAccess(**raw[which]) for which in ("first", "second")}
    return Race(**{**raw, **accesses})


def _wait_for_mps() -> None:
    """Where PyTorch's mps device is this one: until what it was given is done."""
    if "mps_ds.softmps" in sys.modules:
        sys.modules["torch"].mps.synchronize()


@contextmanager
def tracing(*, raise_on_race: bool = True) -> Iterator[Tracing]:
    """Watch every access to memory of the kernels that run in a `with` block.

    ::

        with softmetal.tracing() as trace:
            step()
        assert trace.kernels["adam"].declared.bytes == 28 * numel

    Pipelines made before take part: their kernels run in a tracing build of the same source, which
    is compiled when it is first needed (seconds) and cached. Everything runs on one worker, some 50
    times slower. Command buffers that complete in the block count: PyTorch's are waited for, others
    you wait for yourself. Accesses out of bounds of a buffer or a threadgroup variable fail the
    command buffer, to the byte. Not to be nested.

    Raises DataRaceError at the end of the block if kernels raced, unless `raise_on_race` is false;
    `trace.races` has them either way.
    """
    _wait_for_mps()
    before, now = settings(), settings()
    now.trace, now.fail_on_race = True, False
    reset_trace()
    set_settings(now)
    result = Tracing()
    try:
        yield result
        result._finish()
    finally:
        set_settings(before)
    if raise_on_race and result.races:
        raise DataRaceError(result.races, result.races_left_out)
