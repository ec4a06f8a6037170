"""Types as Objective-C type encodings, from their spelling in C, C++ or Objective-C.

Two extensions make the comparison stricter than the run time's own encoding: an object carries its
class or protocol, as in @(MTLBuffer), and a block its signature, as in @?<v@(MTLCommandBuffer)>.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

SCALARS = {
    "void": "v", "bool": "B", "BOOL": "B", "float": "f", "double": "d", "CFTimeInterval": "d",
    "TimeInterval": "d", "char": "c", "int": "i", "int32_t": "i", "uint32_t": "I",
    "unsigned int": "I", "long": "q", "long long": "q", "Integer": "q", "int64_t": "q",
    "unsigned long": "Q", "unsigned long long": "Q", "UInteger": "Q", "uint64_t": "Q",
    "uint8_t": "C", "unsigned char": "C", "uint16_t": "S", "unsigned short": "S",
}  # fmt: skip

ANY_OBJECT = ("Object", "NSObject", "_Object")
QUALIFIERS = re.compile(
    r"\b(const|class|struct|enum|_Nonnull|_Nullable|_Nullable_result|_Null_unspecified"
    r"|__strong|__autoreleasing|__unsafe_unretained)\b"
)


def same(mine: str, theirs: str) -> bool:
    """Equal encodings; an object of no stated class on either side matches any object."""

    def bare(encoding: str) -> str:
        return re.sub(r"@\(\w+\)", "@", encoding)

    return mine == theirs or mine == bare(theirs) or bare(mine) == theirs


def split_arguments(text: str) -> list[str]:
    """Split a parameter list at its outer commas."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "(<") - (char in ")>")
        if char == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


@dataclass
class Encoder:
    """Encodes spellings; it knows the names of one side's types."""

    is_object: Callable[[str], bool]
    aliases: Mapping[str, str] = field(
        default_factory=dict
    )  # enums and typedefs: what they stand for
    structs: Collection[str] = ()

    def encode(self, spelling: str) -> str:
        """The encoding of a type; ?(name) for one that is not known."""
        name = re.sub(r"\b(MTL|NS)::", r"\1", QUALIFIERS.sub("", spelling))
        name = re.sub(r"\s+", " ", name).strip()
        if name in self.aliases:
            return self.encode(self.aliases[name])
        block = re.fullmatch(r"(.+?)\s*\(\^\s*\)\s*\((.*)\)", name)
        if block:
            arguments = [] if block[2] == "void" else split_arguments(block[2])
            return f"@?<{''.join(map(self.encode, (block[1], *arguments)))}>"
        identifier = re.fullmatch(r"id\s*(?:<\s*(\w+)\s*>)?", name)
        if identifier:
            return f"@({identifier[1]})" if identifier[1] else "@"
        if name.endswith("*"):
            return self._pointer(name[:-1].strip())
        if name in self.structs:
            return f"{{{name}}}"
        return SCALARS.get(name) or SCALARS.get(re.sub(r"^(NS|MTL)", "", name)) or f"?({name})"

    def _pointer(self, pointee: str) -> str:
        bare = re.sub(r"<.*>", "", pointee).strip()
        if bare == "char":
            return "*"
        if not self.is_object(bare):
            return "^" + self.encode(pointee)
        return "@" if bare in ANY_OBJECT else f"@({bare})"
