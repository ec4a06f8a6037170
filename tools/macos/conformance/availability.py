"""The macOS version that each declaration needs, compared with a record.

The record, third_party/macos/introduced.txt, was taken from PyObjC's description of Metal, which
its generator writes from Apple's headers; it is in PyObjC's repository, not in its wheels.
"""

import json
from pathlib import Path
from typing import Any

from ..paths import SOURCES
from .declarations import Declarations

RECORD = SOURCES / "introduced.txt"
HEAD = """\
# macOS VERSION that introduced each declaration of ours. Taken with `python -m macos record` from
# PyObjC's repository: pyobjc-framework-Metal/metadata/raw/arm64-{sdk}.fwinfo
# Enumerators are not in that file.
"""


def as_tuple(version: str) -> tuple[int, ...]:
    """A version to compare; 15 and 15.0 are the same."""
    numbers = [int(part) for part in version.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def needed(ours: Declarations) -> dict[str, str]:
    """Name -> version, by our headers; a method needs what its class or protocol needs."""
    found = {}
    for container in ours.containers:
        if not container.name.startswith("MTL"):
            continue
        base = ours.introduced.get(container.name, "0")
        found[container.name] = base
        for method in container.methods:
            name = f"{method.selector[0]}[{container.name} {method.selector[1:]}]"
            found[name] = max(base, ours.introduced.get(name, "0"), key=as_tuple)
    for name in (*ours.functions, *ours.constants):
        found[name] = ours.introduced.get(name, "0")
    return found


def recorded() -> dict[str, str]:
    """The record."""
    lines = [line for line in RECORD.read_text().splitlines() if not line.startswith("#")]
    return {name: version for version, name in (line.split(" ", 1) for line in lines)}


def compare(ours: Declarations) -> list[str]:
    """What differs from the record, in words."""
    record = recorded()
    problems = []
    for name, version in needed(ours).items():
        expected = record.get(name)
        if expected is None:
            problems.append(f"{name}: introduced.txt has no line for it")
        elif as_tuple(expected) != as_tuple(version):
            problems.append(f"{name}: declared for macOS {version}, the record has {expected}")
    return problems


def versions_of(description: dict[str, Any]) -> dict[str, str]:
    """Name -> version, of all that a description of a framework says."""
    found: dict[str, str] = {}
    definitions = description["definitions"]
    for group in ("classes", "formal_protocols"):
        for container, about in definitions[group].items():
            versions = []
            for method in about["methods"]:
                sign = "+" if method["class_method"] else "-"
                if "introduced" in method:
                    found[f"{sign}[{container} {method['selector']}]"] = method["introduced"]
                    versions.append(method["introduced"])
            if versions:
                found[container] = min(versions, key=as_tuple)
    for group in ("functions", "externs"):
        for name, about in definitions[group].items():
            if "introduced" in about:
                found[name] = about["introduced"]
    return found


def record(ours: Declarations, source: Path) -> None:
    """Write the record anew from a .fwinfo file."""
    lines = [line for line in source.read_text().splitlines() if not line.startswith("//")]
    description = json.loads("\n".join(lines))
    versions = versions_of(description)
    sdk = source.stem.partition("-")[2]
    found = [f"{versions.get(name, '?')} {name}" for name in needed(ours)]
    RECORD.write_text(HEAD.format(sdk=sdk) + "\n".join(found) + "\n")
