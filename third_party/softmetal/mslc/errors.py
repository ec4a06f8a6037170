"""What mslc raises."""

from __future__ import annotations

from typing import NamedTuple


class Location(NamedTuple):
    """A place in the original source."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class MslError(Exception):
    """The source cannot be compiled. The text is what a compiler prints: file:line: error: ..."""

    def __init__(self, message: str, location: Location | None = None) -> None:
        super().__init__(f"{location}: error: {message}" if location else message)


class ToolError(Exception):
    """A tool that mslc needs is missing; the text says how to install it."""
