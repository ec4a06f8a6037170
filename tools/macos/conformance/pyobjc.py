"""Reads the metadata that PyObjC's generator took from Apple's headers.

The metadata is a Python module that describes a framework to PyObjC by calling it. Here it calls a
recorder instead.
"""

import re
import sys
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock


@dataclass
class Metadata:
    """What PyObjC says; types are the run time's own encodings."""

    enum_values: dict[str, int] = field(default_factory=dict)
    structs: dict[str, tuple[str, list[str]]] = field(default_factory=dict)  # encoding, names
    constants: set[str] = field(default_factory=set)
    # Methods of protocols: selector -> {index of the argument, -1 for the result: encoding}, for
    # each protocol that has one of that name.
    protocol_methods: dict[str, list[dict[int, str]]] = field(default_factory=dict)


def text(name: bytes | str) -> str:
    """The module writes names and types now as the one, now as the other."""
    return name if isinstance(name, str) else name.decode()


class Recorder(types.ModuleType):
    """Stands in for the module `objc`."""

    arch = "arm64"

    def __init__(self, metadata: Metadata) -> None:
        super().__init__("objc")
        self._metadata = metadata

    def createStructType(self, name: str, encoding: bytes, fields: list[str]) -> None:
        """A struct."""
        self._metadata.structs[name.rpartition(".")[2]] = (text(encoding), fields)

    def registerMetaDataForSelector(self, owner: bytes, selector: bytes, about: Any) -> None:
        """A method; those of protocols are registered for NSObject."""
        if owner != b"NSObject":
            return
        found = {
            index - 2: text(argument["type"])
            for index, argument in about.get("arguments", {}).items()
            if "type" in argument
        }
        if "type" in about.get("retval", {}):
            found[-1] = text(about["retval"]["type"])
        self._metadata.protocol_methods.setdefault(text(selector), []).append(found)

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


def read(path: Path) -> Metadata:
    """Read one framework's _metadata.py."""
    metadata = Metadata()
    names: dict[str, Any] = {}
    with mock.patch.dict(sys.modules, {"objc": Recorder(metadata)}):
        exec(compile(path.read_text(), str(path), "exec"), names)
    for name, value in re.findall(r"(\w+)@(-?\d+)", names["enums"]):
        metadata.enum_values[name] = int(value)
    metadata.constants = set(re.findall(r"\w+", names["constants"]))
    return metadata
