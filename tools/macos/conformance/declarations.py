"""Our declarations as clang understands them, from its dump of the syntax tree."""

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ..paths import OLDEST_MACOS, SDK, tool
from .encoding import Encoder

Node = dict[str, Any]
OURS = re.compile(r"(MTL|NS)[A-Z]")
# From the Objective-C runtime's own headers.
FOREIGN = {"NSObject", "NSInteger", "NSUInteger"}


@dataclass
class Method:
    """A method; `types` are the result's encoding and the arguments'."""

    selector: str  # with its sign: -length, +stringWithUTF8String:
    types: list[str]


@dataclass
class Container:
    """A class or protocol."""

    name: str
    kind: str
    bases: list[str]
    methods: list[Method] = field(default_factory=list)


@dataclass
class Enum:
    """An enumeration or set of options."""

    name: str
    underlying: str
    values: dict[str, int]


@dataclass
class Declarations:
    """All of ours."""

    containers: list[Container] = field(default_factory=list)
    enums: list[Enum] = field(default_factory=list)
    structs: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # name, encoding
    functions: dict[str, list[str]] = field(default_factory=dict)
    constants: list[str] = field(default_factory=list)
    introduced: dict[str, str] = field(default_factory=dict)  # name -> macOS version


def clang(source: str, *flags: str, frameworks: Path | None = None) -> str:
    """Run clang's front end over a source; `frameworks` come before the SDK's."""
    target = f"arm64-apple-macos{OLDEST_MACOS}"
    command = [tool("clang++"), "-target", target, "-isysroot", str(SDK), "-nostdinc++"]
    command += ["-std=gnu++20", "-fsyntax-only"]
    if frameworks:
        command += ["-iframework", str(frameworks)]
    with tempfile.NamedTemporaryFile("w", suffix=".mm") as file:
        file.write(source)
        file.flush()
        done = subprocess.run([*command, *flags, file.name], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the declarations do not compile:\n{done.stderr}")
    return done.stdout


def flatten(nodes: list[Node]) -> Iterator[Node]:
    """Declarations, also those inside extern "C"."""
    for node in nodes:
        yield node
        if node.get("kind") == "LinkageSpecDecl":
            yield from flatten(node.get("inner", []))


def inner(node: Node, kind: str) -> list[Node]:
    """Children of one kind."""
    return [child for child in node.get("inner", []) if child.get("kind") == kind]


class Reader:
    """Turns a syntax tree into declarations."""

    def __init__(self, tree: list[Node]) -> None:
        self.nodes = list(flatten(tree))

    def is_ours(self, node: Node) -> bool:
        """Whether this is a declaration of Metal or Foundation."""
        name = node.get("name", "")
        return bool(OURS.match(name)) and name not in FOREIGN

    @cached_property
    def enums(self) -> list[tuple[str, Node]]:
        """Enumerations with their names; sets of options have theirs from the typedef before."""
        found = []
        for before, node in zip([{}, *self.nodes], self.nodes, strict=False):
            if node["kind"] == "EnumDecl" and "fixedUnderlyingType" in node:
                found.append((node.get("name") or before.get("name", ""), node))
        return found

    @cached_property
    def structs(self) -> dict[str, Node]:
        """Structs by the name of their typedef."""
        records = {n["id"]: n for n in self.nodes if n["kind"] in ("RecordDecl", "CXXRecordDecl")}
        found = {}
        for node in self.nodes:
            if node["kind"] == "TypedefDecl" and self.is_ours(node):
                owned = node.get("inner", [{}])[0].get("ownedTagDecl", {})
                record = records.get(owned.get("id", ""), {})
                if inner(record, "FieldDecl"):
                    found[node["name"]] = record
        return found

    @cached_property
    def encoder(self) -> Encoder:
        """Knows the names of our types."""
        interfaces = {n["name"] for n in self.nodes if n["kind"] == "ObjCInterfaceDecl"}
        aliases = {
            name: node["fixedUnderlyingType"]["qualType"] for name, node in self.enums if name
        }
        for node in self.nodes:
            if node["kind"] == "TypedefDecl" and self.is_ours(node):
                aliases.setdefault(node["name"], node["type"]["qualType"])
        aliases = {name: to for name, to in aliases.items()
                   if name != to and name not in self.structs}  # fmt: skip
        return Encoder(lambda name: name in interfaces, aliases, self.structs)

    def encode(self, type_: Node) -> str:
        """A type by its own spelling, else by what it stands for."""
        encoded = self.encoder.encode(type_["qualType"])
        if "?(" in encoded and "desugaredQualType" in type_:
            return self.encoder.encode(type_["desugaredQualType"])
        return encoded

    def method(self, container: str, node: Node) -> Method:
        """One method."""
        result = node["returnType"]
        if result["qualType"].startswith("instancetype"):
            result = {"qualType": f"{container} *"}
        arguments = [argument["type"] for argument in inner(node, "ParmVarDecl")]
        sign = "-" if node["instance"] else "+"
        return Method(sign + node["name"], [self.encode(t) for t in (result, *arguments)])

    def container(self, node: Node) -> Container:
        """One class or protocol."""
        kind = "protocol" if node["kind"] == "ObjCProtocolDecl" else "class"
        bases = [base["name"] for base in node.get("protocols", [])]
        if "name" in node.get("super", {}):
            bases.append(node["super"]["name"])
        methods = [self.method(node["name"], m) for m in inner(node, "ObjCMethodDecl")]
        return Container(node["name"], kind, bases, methods)

    def containers(self) -> list[Container]:
        """Classes and protocols; one that is declared ahead counts once."""
        found: dict[str, Container] = {}
        for node in filter(self.is_ours, self.nodes):
            if node["kind"] in ("ObjCProtocolDecl", "ObjCInterfaceDecl"):
                new = self.container(node)
                known = found.get(new.name)
                if (new.bases or new.methods) and (known is None or new.methods):
                    found[new.name] = new
        return list(found.values())

    def read(self) -> Declarations:
        """Everything but versions."""
        found = Declarations()
        for name, node in self.enums:
            constants = inner(node, "EnumConstantDecl")
            if constants and OURS.match(name):
                values = {c["name"]: int(c["inner"][0]["value"]) for c in constants}
                underlying = self.encoder.encode(node["fixedUnderlyingType"]["qualType"])
                found.enums.append(Enum(name, underlying, values))
        for name, node in self.structs.items():
            fields = inner(node, "FieldDecl")
            found.structs[name] = [(f["name"], self.encode(f["type"])) for f in fields]
        found.containers = self.containers()
        for node in filter(self.is_ours, self.nodes):
            if node["kind"] == "FunctionDecl" and not inner(node, "CompoundStmt"):
                result = {"qualType": node["type"]["qualType"].partition("(")[0]}
                arguments = [argument["type"] for argument in inner(node, "ParmVarDecl")]
                found.functions[node["name"]] = [self.encode(t) for t in (result, *arguments)]
            elif node["kind"] == "VarDecl":
                found.constants.append(node["name"])
        return found


DECLARATION = re.compile(
    r"^(?P<indent>[ |`]*-)(?P<kind>\w+Decl) 0x\w+ (?:parent 0x\w+ )?(?:prev 0x\w+ )?<.*?> "
    r"(?:<.*?> )?\S+ (?:implicit |used |referenced )*(?P<rest>.*)$"
)
VERSION = re.compile(
    r"^(?P<indent>[ |`]*-)AvailabilityAttr 0x\w+ .*> (?:Inherited )?macos ([\d.]+) "
)


def name_of(kind: str, rest: str) -> str:
    """How a declaration is named here, from what the dump says after its place."""
    if kind == "ObjCMethodDecl":
        sign, selector = rest.split(" ", 2)[:2]
        return sign + selector
    return rest.split(" ", 1)[0]


def read_versions(dump: str) -> dict[str, str]:
    """Name -> the macOS version that introduced it; methods as "-[MTLBuffer length]"."""
    found: dict[str, str] = {}
    stack: list[tuple[int, str, str]] = []
    for line in dump.splitlines():
        version = VERSION.match(line)
        declaration = None if version else DECLARATION.match(line)
        if not version and not declaration:
            continue
        depth = len((version or declaration)["indent"])  # type: ignore[index]
        while stack and stack[-1][0] >= depth:
            stack.pop()
        if declaration:
            kind = declaration["kind"]
            stack.append((depth, kind, name_of(kind, declaration["rest"])))
        elif version and stack:
            _, kind, name = stack[-1]
            if kind == "ObjCMethodDecl" and len(stack) > 1:
                name = f"{name[0]}[{stack[-2][2]} {name[1:]}]"
            if kind != "ObjCPropertyDecl":
                found[name] = version[2]
    return found


def read(frameworks: Path | None = None) -> Declarations:
    """Our declarations, or those of another folder that holds Metal.framework."""
    source = "#include <Foundation/Foundation.h>\n#include <Metal/Metal.h>\n"
    tree = clang(source, "-Xclang", "-ast-dump=json", frameworks=frameworks)
    found = Reader(json.loads(tree)["inner"]).read()
    dump = clang(source, "-Xclang", "-ast-dump", "-fno-color-diagnostics", frameworks=frameworks)
    found.introduced = read_versions(dump)
    return found
