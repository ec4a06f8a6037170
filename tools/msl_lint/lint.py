"""Puts the rules together."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from mslc.errors import MslError, ToolError

from . import compiled, contraction, language, pointers, versions, waiting
from .readings import as_cxx14, as_opencl, problems_of
from .source import OLDEST, Problem, Source

TOKEN_RULES = (language.check, pointers.check, waiting.check)
TEXT_RULES = (versions.check, contraction.check)
# The host compiles kernels for the oldest version only; a compiler that knows newer ones is not
# there. Each reading rewrites the tokens, so each gets its own.
Reading = Callable[[Source], Iterator[Problem]]
READINGS: tuple[Reading, ...] = (as_opencl, as_cxx14, compiled.check)


def of_version(source: Source, readings: Sequence[Reading]) -> Iterator[Problem]:
    """What is wrong for one version of Metal."""
    for rule in TEXT_RULES:
        yield from rule(source)
    for token_rule in TOKEN_RULES:
        yield from source.problems(token_rule(source))
    if source.version == OLDEST:
        for reading in readings:
            yield from reading(Source(source.path))


def lint(path: Path, readings: Sequence[Reading] = READINGS) -> list[Problem]:
    """What is wrong in a file: as Metal 3.1 sees it, and as the newer ones do that it asks for."""
    problems: set[Problem] = set()
    for version in [OLDEST, *versions.asked_for(path)]:
        try:
            problems.update(of_version(Source(path, version), readings))
        except MslError as error:  # not even mslc can read it
            problems.update(problems_of(path, str(error), "read by mslc"))
    return sorted(problems)


def main(arguments: Sequence[str], default: Sequence[Path]) -> int:
    """Print what is wrong in the files; gives the exit status."""
    files = [Path(argument) for argument in arguments] or list(default)
    try:
        problems = [problem for file in files for problem in lint(file)]
    except ToolError as error:
        print(error, file=sys.stderr)
        return 1
    for text in dict.fromkeys(str(problem) for problem in problems):
        print(text)
    if not files:
        print("msl_lint: no kernel file was found", file=sys.stderr)
    return 1 if problems or not files else 0
