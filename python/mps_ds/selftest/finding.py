"""What a rule of the diagnosis finds."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from mps_ds.selftest.machine import Machine


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong (`fatal`), or that the user should know."""

    name: str
    problem: str
    remedy: str
    fatal: bool = True


Rule = Callable[[Machine], Finding | None]


def release(version: str) -> tuple[int, int]:
    """Major and minor of a version as packages write it: 2.10.0a0+git12 gives (2, 10)."""
    major, minor = version.split("+")[0].split(".")[:2]
    digits = re.match(r"\d+", minor)
    return int(major), int(digits[0]) if digits else 0
