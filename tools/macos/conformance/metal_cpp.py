"""Reads metal-cpp, Apple's C++ wrappers of Metal: each inline method names the selector it sends.

Names are given Objective-C spelling: MTL::Buffer becomes MTLBuffer.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from .encoding import ANY_OBJECT, SCALARS, Encoder, split_arguments

METHOD = re.compile(
    r"_(MTL|NS)_INLINE\s+([^;{}()]+?)\s*((?:MTL|NS)::\w+)::\w+\s*\(((?:[^{}()]|\([^()]*\))*)\)"
    r"\s*(?:const)?\s*\{([^{}]*)\}"
)
INTEGER = re.compile(r"-?(\d+|0x[0-9a-fA-F]+)")


@dataclass
class MetalCpp:
    """What metal-cpp says."""

    kinds: dict[str, str] = field(default_factory=dict)  # class or protocol
    bases: dict[str, str | None] = field(default_factory=dict)
    enums: dict[str, str] = field(default_factory=dict)  # name -> underlying type
    enum_values: dict[str, int] = field(default_factory=dict)
    structs: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # name, encoding
    methods: dict[tuple[str, str], list[list[str]]] = field(default_factory=dict)
    functions: dict[str, list[str]] = field(default_factory=dict)
    selectors: set[str] = field(default_factory=set)

    def find(self, container: str, selector: str) -> list[list[str]]:
        """Encodings (result, arguments) of "-x" or "+x" as the nearest base declares it."""
        name: str | None = container
        while name:
            if (name, selector) in self.methods:
                return self.methods[name, selector]
            name = self.bases.get(name)
        return []

    def ancestors(self, container: str) -> list[str]:
        """All bases, the nearest first."""
        found = []
        base = self.bases.get(container)
        while base:
            found.append(base)
            base = self.bases.get(base)
        return found


class Reader:
    """One pass over the headers' text."""

    def __init__(self, folder: Path) -> None:
        files = [path for name in ("Foundation", "Metal") for path in
                 sorted((folder / name).glob("*.hpp"))]  # fmt: skip
        text = "\n".join(path.read_text(errors="replace") for path in files)
        self.text = re.sub(r"//[^\n]*", "", text)
        self.truth = MetalCpp()
        self.blocks: dict[str, str] = {}
        self.aliases: dict[str, str] = {}
        self.pointers: dict[str, str] = {}  # names for pointers to objects
        self.struct_bodies: dict[str, str] = {}

    def read(self) -> MetalCpp:
        """Everything."""
        kinds = re.findall(r"_(?:MTL|NS)_PRIVATE_DEF_(CLS|PRO)\(\s*(\w+)\s*\)", self.text)
        words = {"CLS": "class", "PRO": "protocol"}
        self.truth.kinds = {name: words[kind] for kind, name in kinds}
        self._read_enums()
        for found in re.finditer(r"^namespace (MTL|NS)\s*\{", self.text, re.M):
            self._read_namespace(found[1], block_at(self.text, found.end()))
        self.encoder = self._make_encoder()
        for name, body in self.struct_bodies.items():
            self.truth.structs[name] = self._fields(namespace_of(name), body)
        self._read_methods()
        self._read_functions()
        return self.truth

    def _read_enums(self) -> None:
        for ns in ("MTL", "NS"):
            for found in re.findall(rf"_{ns}_(?:ENUM|OPTIONS)\(([^,]+),\s*(\w+)\)\s*\{{([^}}]*)\}}",
                                    self.text):  # fmt: skip
                underlying, name, entries = found
                self.truth.enums[ns + name] = underlying.strip()
                for entry, value, shift in re.findall(
                    r"(\w+)\s*=\s*(-?\w+)(?:\s*<<\s*(\d+))?", entries
                ):
                    if INTEGER.fullmatch(value):
                        self.truth.enum_values[ns + entry] = int(value, 0) << int(shift or 0)

    def _read_namespace(self, ns: str, body: str) -> None:
        for name, target in re.findall(r"using (\w+)\s*=\s*(\w+);", body):
            if target in SCALARS:
                self.aliases[ns + name] = target
        for name, target in re.findall(r"using (\w+)\s*=\s*([^;]*\(\^\)[^;]*);", body):
            self.blocks[ns + name] = target
        for name, target in re.findall(r"using (\w+)\s*=\s*(?:class |MTL::|NS::)(\w+\s*\*);", body):
            self.pointers[ns + name] = ns + target
        for name, fields in re.findall(r"\bstruct (\w+)\s*\{(.*?)\n\}", body, re.S):
            self.struct_bodies[ns + name] = fields
        for name, bases in re.findall(r"\bclass (\w+)\s*:\s*public ([^{;]+)\{", body):
            found = re.search(r"<\s*\w+\s*,\s*((?:\w+::)?\w+)\s*>", bases)
            base = found[1] if found else None
            if base:
                base = base.replace("::", "") if "::" in base else ns + base
            self.truth.bases[ns + name] = base

    def _make_encoder(self) -> Encoder:
        objects = set(self.truth.bases)

        def is_object(name: str) -> bool:
            return name in objects or f"MTL{name}" in objects or name in ANY_OBJECT

        self.known = objects | set(self.truth.enums) | set(self.struct_bodies)
        self.known |= set(self.blocks) | set(self.aliases) | set(self.pointers)
        blocks = {
            name: self.qualify(text, namespace_of(name)) for name, text in self.blocks.items()
        }
        aliases = {**self.truth.enums, **self.aliases, **self.pointers, **blocks}
        return Encoder(is_object, aliases, self.struct_bodies)

    def qualify(self, spelling: str, ns: str) -> str:
        """Inside namespace MTL, `Library*` means MTLLibrary*."""

        def full(found: re.Match[str]) -> str:
            return ns + found[0] if ns + found[0] in self.known else found[0]

        return re.sub(r"(?<![:\w])[A-Z]\w*(?!\w|::)", full, spelling)

    def _fields(self, ns: str, body: str) -> list[tuple[str, str]]:
        plain = re.findall(r"^\s*([\w:]+(?:\s*\*)?)\s+(\w+)(?:\s*=[^;()]*)?;", body, re.M)
        return [(name, self.encoder.encode(self.qualify(spelling, ns))) for spelling, name in plain]

    def _read_methods(self) -> None:
        definitions = re.findall(
            r'_(?:MTL|NS)_PRIVATE_DEF_SEL\(\s*(\w+),\s*"([^"]+)"\s*\)', self.text
        )
        selectors = dict(definitions)
        self.truth.selectors = set(selectors.values())
        for ns, result, container, parameters, body in METHOD.findall(self.text):
            sent = re.search(r"_PRIVATE_SEL\((\w+)\)", body)
            if not sent or sent[1] not in selectors:
                continue
            sign = "+" if "_PRIVATE_CLS(" in body else "-"
            spellings = [result, *map(drop_name, split_arguments(parameters))]
            types = [self.encoder.encode(self.qualify(spelling, ns)) for spelling in spellings]
            key = (container.replace("::", ""), sign + selectors[sent[1]])
            self.truth.methods.setdefault(key, []).append(types)

    def _read_functions(self) -> None:
        for result, name, parameters in re.findall(
            r'extern "C" ([\w:]+\s*\*?)\s*(\w+)\(([^()]*)\);', self.text
        ):
            spellings = [result, *split_arguments(parameters)]
            self.truth.functions[name] = [self.encoder.encode(spelling) for spelling in spellings]


def namespace_of(name: str) -> str:
    """The C++ namespace of an Objective-C name."""
    return "NS" if name.startswith("NS") else "MTL"


def block_at(text: str, start: int) -> str:
    """What stands between the brace before `start` and the one that closes it."""
    depth = 1
    for brace in re.finditer(r"[{}]", text[start:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return text[start : start + brace.start()]
    return text[start:]


def drop_name(parameter: str) -> str:
    """`const T* name`, `const T name[]` and `R (^name)(T)` as types."""
    if "(^" in parameter:
        return re.sub(r"\(\^\s*\w*\)", "(^)", parameter)
    array = re.fullmatch(r"(.*?)\s*\w+\[\]", parameter, re.S)
    if array:
        return array[1] + "*"
    return parameter if parameter.endswith("*") else re.sub(r"\s*\b\w+$", "", parameter)


def read(folder: Path) -> MetalCpp:
    """Read the headers below `folder`."""
    return Reader(folder).read()
