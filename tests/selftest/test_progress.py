"""The progress bar is for a terminal, and leaves nothing behind."""

import io
import re

import pytest

from mps_ds.selftest.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_file_gets_nothing() -> None:
    file = io.StringIO()
    assert list(Progress("work", 3, file)) == [0, 1, 2]
    assert file.getvalue() == ""


def test_a_terminal_sees_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Progress, "REDRAW_SECONDS", 0.0)
    terminal = Terminal()
    assert len(list(Progress("work", 4, terminal))) == 4
    assert re.findall(r"(\d)/4", terminal.getvalue()) == ["1", "2", "3", "4"]
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_the_line_is_cleared_when_the_work_fails() -> None:
    terminal = Terminal()
    steps = iter(Progress("work", 4, terminal))
    next(steps)
    with pytest.raises(ValueError, match="stop"):
        steps.throw(ValueError("stop"))  # type: ignore[attr-defined]
    assert terminal.getvalue().endswith("\r\x1b[K")
