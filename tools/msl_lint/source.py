"""One kernel file, preprocessed for one version of Metal, and what is wrong in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from mslc import identity
from mslc.compile import Options, preprocess
from mslc.model import Declarations
from mslc.rewrite import analyse
from mslc.tokens import TokenStream

OLDEST = (3, 1)
"""The Metal that every kernel must compile for: macOS 14's."""

NEWER_HEADERS = Path(__file__).resolve().parent / "newer_headers"


class Problem(NamedTuple):
    """Something to be changed, and where."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        path = Path(self.file).resolve()
        shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        return f"{shown}:{self.line}: {self.message}"


Found = Iterator[tuple[int, str]]
"""What a rule yields: token and message."""


@dataclass(frozen=True)
class Source:
    """A kernel file as one version of Metal sees it."""

    path: Path
    version: tuple[int, int] = OLDEST

    @cached_property
    def options(self) -> Options:
        """For mslc. The name is what diagnostics call the file."""
        return Options(
            language_version=self.version, include_folders=[str(NEWER_HEADERS)], name=str(self.path)
        )

    @property
    def folder(self) -> str:
        """Where includes in quotes are looked for."""
        return str(self.path.parent)

    @cached_property
    def preprocessed(self) -> str:
        """With includes and macros expanded, and without what is not for this version."""
        return preprocess(self.path.read_bytes(), self.options, self.folder)

    @cached_property
    def _analysed(self) -> tuple[TokenStream, Declarations]:
        return analyse(self.preprocessed)

    @property
    def tokens(self) -> TokenStream:
        """Tokens of the preprocessed text."""
        return self._analysed[0]

    @property
    def found(self) -> Declarations:
        """Declarations of the preprocessed text."""
        return self._analysed[1]

    def problems(self, found: Iterable[tuple[int, str]]) -> Iterator[Problem]:
        """What a rule found, with file and line."""
        for at, message in found:
            yield Problem(*self.tokens.location(at), message)

    def lines(self) -> Iterator[tuple[str, int, str]]:
        """(file, line, text) of each line that is not from the shading language's own headers."""
        file, line = str(self.path), 1
        for text in self.preprocessed.splitlines():
            if marker := re.match(r'\s*#(?:line)? (\d+) "([^"]*)"', text):
                file, line = marker[2], int(marker[1])
                continue
            if not file.startswith((str(identity.MSL), str(NEWER_HEADERS))):
                yield file, line, text
            line += 1
