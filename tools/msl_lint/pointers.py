"""Pointers and references of any type need an address space.

mslc asks for it where the type is a scalar; here for classes, vectors, aliases, template
parameters, `auto`, `decltype`, pointers to pointers and `T&&`.
"""

from __future__ import annotations

from mslc.restrictions import SCALARS
from mslc.tokens import ADDRESS_SPACES, TokenStream, is_name

from .source import Found, Source

_SCALARS = SCALARS | {"ptrdiff_t", "unsigned", "signed", "auto"}
_VECTORS = frozenset(
    f"{packed}{scalar}{n}" for packed in ("", "packed_") for scalar in _SCALARS for n in (2, 3, 4)
)
_LIBRARY = frozenset(["vec", "array", "atomic"]) | {
    f"atomic_{scalar}" for scalar in ("int", "uint", "bool", "float", "ulong")
}
_BEFORE_A_NAME = frozenset(["typename", "class", "struct", "union", "enum"])
_QUALIFIERS = frozenset(
    ["const", "volatile", "metal", "::", "typename", "struct", "static", "constexpr", "inline"]
) | {"restrict", "__restrict", "unsigned", "signed", "long", "short", "int", "char"}


def check(source: Source) -> Found:
    """Each `T*`, `T&` or `T&&` without an address space before it, and pointers to members."""
    tokens = source.tokens
    types = _SCALARS | _VECTORS | _LIBRARY | _declared(source)
    for i, mark in enumerate(tokens.text):
        if mark not in ("*", "&") or i == 0:
            continue
        before, after = tokens.text[i - 1], tokens.text[i + 1]
        if (before == mark == "&") or (before in SCALARS and after != "&"):
            continue  # said of its first '&', or by mslc
        if before == "::":
            yield i, "pointers to members are not for kernels"
            continue
        start = _type_start(tokens, i - 1, types)
        if start is not None and not _has_address_space(tokens, start, i):
            kind = "pointer" if mark == "*" else "reference"
            written = tokens.written(start, i)
            yield i, f"{kind} without an address space: write 'device {written}{mark}' or another"


def _declared(source: Source) -> set[str]:
    """Types that the file names: classes, aliases, enumerations, template parameters."""
    text = source.tokens.text
    names = {f.name for f in source.found.functions if f.is_class} | set(source.found.aliases)
    constants = {c.name for c in source.found.program_constants}
    for i, word in enumerate(text[:-2]):
        is_alias = word == "using" and text[i + 2] == "="
        if is_alias or (word in _BEFORE_A_NAME and is_name(text[i + 1])):
            names.add(text[i + 1])
        elif word == "typedef":
            names.add(text[text.index(";", i) - 1])
    return names - constants - ADDRESS_SPACES


def _type_start(tokens: TokenStream, i: int, types: frozenset[str] | set[str]) -> int | None:
    """If a type ends at i: where it starts, without what qualifies it."""
    text = tokens.text
    while text[i] in ("const", "volatile"):
        i -= 1
    if text[i] in ("*", "&"):  # a pointer to a pointer
        return _type_start(tokens, i - 1, types)
    if text[i] == ")" and text[tokens.match[i] - 1] == "decltype":
        return tokens.match[i] - 1
    if text[i] == ">":
        for opening in range(i - 1, 0, -1):
            if text[opening] in (";", "{", "}"):
                return None
            if text[opening] == "<" and tokens.template_end(opening) == i + 1:
                i = opening - 1
                break
        else:
            return None
    return i if text[i] in types and text[i - 1] not in (".", "->") else None


def _has_address_space(tokens: TokenStream, start: int, end: int) -> bool:
    """Before the type, or between it and the mark at `end`, but not for an inner pointer only."""
    text = tokens.text
    between = text[start + 1 : end]
    pointers = [i for i in range(start + 1, end) if text[i] in ("*", "&") and i not in tokens.match]
    if pointers and not _inside_template(tokens, start, pointers[-1]):
        between = text[pointers[-1] + 1 : end]
        return bool(ADDRESS_SPACES & set(between))
    if ADDRESS_SPACES & set(between):
        return True
    before = start - 1
    while before >= 0 and text[before] in _QUALIFIERS:
        before -= 1
    return before >= 0 and text[before] in ADDRESS_SPACES


def _inside_template(tokens: TokenStream, start: int, i: int) -> bool:
    end = tokens.template_end(start + 1) if tokens.text[start + 1] == "<" else None
    return end is not None and i < end
