"""What differs between our declarations and the sources."""

import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..paths import part, tool
from . import metal_cpp, pyobjc
from .declarations import Container, Declarations, Enum, Method
from .encoding import same
from .metal_cpp import MetalCpp
from .pyobjc import Metadata

# Foundation has more than metal-cpp wraps: of a class that it has, or these two. Such a method must
# at least be one that released programs send; its types have no source.
NOT_WRAPPED = {"NSException", "NSConstantString"}
ROOTS = {"NSObject", "NSCopying"}  # metal-cpp's own bases are templates of other names
# PyObjC keeps one method of a name; these are another protocol's with another type.
AMBIGUOUS = {"-[MTLCommandBuffer status]": "MTLIOCommandBuffer's"}


@dataclass(frozen=True)
class Sources:
    """Everything that our declarations are compared with."""

    cpp: MetalCpp
    python: Metadata
    sent: frozenset[str]  # selectors that released macOS binaries send


def sent_selectors(binary: Path) -> set[str]:
    """The selectors that a Mach-O file sends."""
    command = [tool("llvm-otool"), "-arch", "arm64", "-v", "-s", "__TEXT", "__objc_methname"]
    out = subprocess.run([*command, str(binary)], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^[0-9a-f]{8,} +(\S+)$", out, re.M))


@cache
def sources() -> Sources:
    """Read all sources; that takes seconds."""
    binaries = [
        part("torch") / "torch/lib/libtorch_cpu.dylib",
        part("metal-cpp") / "mlx/lib/libmlx.dylib",
        part("pyobjc-core") / "objc/_objc.cpython-311-darwin.so",
    ]
    return Sources(
        metal_cpp.read(part("metal-cpp") / "mlx/include/metal_cpp"),
        pyobjc.read(part("pyobjc-metal") / "Metal/_metadata.py"),
        frozenset().union(*map(sent_selectors, binaries)),
    )


def agrees_with_runtime(mine: str, theirs: str) -> bool:
    """Whether a type is what the run time's plainer encoding says."""
    plain = re.sub(r"@\?<.*>", "@?", re.sub(r"@\(\w+\)", "@", mine))
    if plain.startswith("{"):
        return re.match(r"\{_?(\w+)=", theirs) is not None and plain[1:-1] in theirs
    return plain == theirs or (plain, theirs) == ("B", "Z")


def in_use(container: Container, selector: str, truth: Sources) -> bool:
    """Whether a method that metal-cpp does not wrap is one of Foundation's that programs send."""
    unwrapped = selector not in truth.cpp.selectors or container.name in NOT_WRAPPED
    return container.name.startswith("NS") and unwrapped and selector in truth.sent


def check_method(container: Container, method: Method, truth: Sources) -> list[str]:
    """One method: it exists where we declare it, with these types."""
    sign, selector = method.selector[0], method.selector[1:]
    where = f"{sign}[{container.name} {selector}]"
    found = truth.cpp.find(container.name, method.selector)
    problems = []
    if found:
        alike = [types for types in found if len(types) == len(method.types)]
        if not any(all(map(same, method.types, types)) for types in alike):
            problems.append(f"{where}: types {method.types}, metal-cpp has {found}")
    elif not in_use(container, selector, truth):
        known = selector in truth.cpp.selectors
        hint = "known, but not on this class" if known else "an unknown selector"
        problems.append(f"{where}: {hint}")
    if container.kind == "protocol" and container.name.startswith("MTL") and where not in AMBIGUOUS:
        problems += check_runtime_types(where, selector, method.types, truth.python)
    return problems


def check_runtime_types(where: str, selector: str, types: list[str], python: Metadata) -> list[str]:
    """The same against PyObjC, which lists methods of protocols by selector only."""
    registered = python.protocol_methods.get(selector)
    if not registered:
        return [f"{where}: no protocol that PyObjC knows has it"]
    for theirs in registered:
        if all(agrees_with_runtime(types[i + 1], theirs[i]) for i in theirs if i + 1 < len(types)):
            return []
    return [f"{where}: types {types}, PyObjC has {registered}"]


def check_container(container: Container, truth: Sources) -> list[str]:
    """A class or protocol: its kind, its bases, its methods."""
    name = container.name
    wrapped = name in truth.cpp.bases or name in ROOTS or name in NOT_WRAPPED
    problems = [] if wrapped else [f"{name}: metal-cpp has no such class"]
    kind = truth.cpp.kinds.get(name, container.kind)
    if kind != container.kind:
        problems.append(f"{name}: declared as {container.kind}, metal-cpp says {kind}")
    ancestors = truth.cpp.ancestors(name)
    for base in container.bases:
        if base not in ROOTS and base not in ancestors and name not in NOT_WRAPPED:
            problems.append(f"{name}: {base} is not a base of it")
    if name in ROOTS:
        return problems
    for method in container.methods:
        problems += check_method(container, method, truth)
    return problems


def check_enum(enum: Enum, truth: Sources) -> list[str]:
    """Width and values."""
    problems = []
    underlying = truth.cpp.enums.get(enum.name)
    if underlying is None:
        problems.append(f"{enum.name}: metal-cpp has no such enum")
    else:
        width = {"NS::UInteger": "Q", "NS::Integer": "q"}.get(underlying, underlying)
        if width != enum.underlying:
            problems.append(f"{enum.name}: of type {enum.underlying}, metal-cpp has {width}")
    for name, value in enum.values.items():
        for source, values in (
            ("metal-cpp", truth.cpp.enum_values),
            ("PyObjC", truth.python.enum_values),
        ):
            if values.get(name) != value:
                problems.append(f"{name} = {value}, {source} has {values.get(name)}")
    return problems


def expanded(encoding: str, ours: Declarations) -> str:
    """An encoding with the fields of structs written out, as the run time has it."""

    def fields(found: re.Match[str]) -> str:
        inside = "".join(expanded(field, ours) for _, field in ours.structs[found[1]])
        return f"{{{found[1]}={inside}}}"

    return re.sub(r"\{(\w+)\}", fields, encoding)


def check_structs(ours: Declarations, truth: Sources) -> list[str]:
    """Names and types of each struct's fields."""
    problems = []
    for name, fields in ours.structs.items():
        theirs = truth.cpp.structs.get(name)
        if theirs != fields:
            problems.append(f"struct {name}: {fields}, metal-cpp has {theirs}")
        mine = (expanded(f"{{{name}}}", ours), [field for field, _ in fields])
        expected = truth.python.structs.get(name)
        if name.startswith("MTL") and expected != mine:
            problems.append(f"struct {name}: {mine}, PyObjC has {expected}")
    return problems


def check_functions(ours: Declarations, truth: Sources) -> list[str]:
    """Free functions and constants."""
    problems = []
    for name, types in ours.functions.items():
        theirs = truth.cpp.functions.get(name)
        if theirs is None:
            problems.append(f"{name}(): metal-cpp has no such function")
        elif len(theirs) != len(types) or not all(map(same, types, theirs)):
            problems.append(f"{name}(): types {types}, metal-cpp has {theirs}")
    for name in ours.constants:
        if name not in truth.python.constants:
            problems.append(f"{name}: PyObjC has no such constant")
    return problems


def compare(ours: Declarations, truth: Sources) -> list[str]:
    """Everything that differs, in words."""
    problems = []
    for container in ours.containers:
        problems += check_container(container, truth)
    for enum in ours.enums:
        problems += check_enum(enum, truth)
    return problems + check_structs(ours, truth) + check_functions(ours, truth)
