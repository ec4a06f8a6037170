"""A progress bar of one line, for a terminal; silent where the output goes to a file."""

import sys
import time
from collections.abc import Iterator
from typing import TextIO


class Progress:
    """Shows how far a loop is and how long it will still take.

    >>> for step in Progress("training", 100):
    ...     work(step)
    """

    WIDTH = 30
    REDRAW_SECONDS = 0.1

    def __init__(self, label: str, total: int, stream: TextIO | None = None) -> None:
        self.label = label
        self.total = total
        self.stream = sys.stderr if stream is None else stream
        self.shown = self.stream.isatty()

    def __iter__(self) -> Iterator[int]:
        started = drawn = time.monotonic()
        try:
            for done in range(self.total):
                yield done
                now = time.monotonic()
                if self.shown and now - drawn >= self.REDRAW_SECONDS:
                    drawn = now
                    self._draw(done + 1, now - started)
        finally:
            if self.shown:
                self.stream.write("\r\x1b[K")  # back to the start of the line, and clear it
                self.stream.flush()

    def _draw(self, done: int, elapsed: float) -> None:
        filled = self.WIDTH * done // self.total
        left = elapsed / done * (self.total - done)
        bar = "#" * filled + "." * (self.WIDTH - filled)
        self.stream.write(f"\r       {self.label} [{bar}] {done}/{self.total}, {left:.0f} s left ")
        self.stream.flush()
