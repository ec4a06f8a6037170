"""Refuses what clang accepts as C++ and Metal does not accept as MSL, with the line."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .errors import MslError
from .model import Declarations, Function
from .tokens import ADDRESS_SPACES, TokenStream, is_name

_FORBIDDEN = {
    "double": "'double' is not supported in Metal",
    "virtual": "virtual functions are not supported in Metal",
    "dynamic_cast": "'dynamic_cast' is not supported in Metal",
    "typeid": "'typeid' is not supported in Metal",
    "throw": "exceptions are not supported in Metal: 'throw'",
    "try": "exceptions are not supported in Metal: 'try'",
    "catch": "exceptions are not supported in Metal: 'catch'",
    "goto": "'goto' is not supported in Metal",
    "new": "'new' is not supported in Metal: there is no heap",
    "thread_local": "'thread_local' is not supported in Metal",
    "asm": "inline assembly is not supported in Metal",
    "__asm__": "inline assembly is not supported in Metal",
    "co_await": "coroutines are not supported in Metal",
}
SCALARS = frozenset(
    ["bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "bfloat"]
    + ["float", "void", "size_t"]
    + [f"{i}int{n}_t" for i in ("", "u") for n in (8, 16, 32, 64)]
)
_QUALIFIERS = frozenset(
    ["const", "volatile", "unsigned", "signed", "long", "short", "int", "char", "metal", "::"]
) | {"static", "constexpr", "inline", "typename", "restrict", "__restrict"}


Violations = Iterator[tuple[int, str]]


def check(tokens: TokenStream, found: Declarations, language_version: tuple[int, int]) -> None:
    """Raise MslError for the first violation in source order."""
    first = min(violations(tokens, found, language_version), default=None)
    if first is not None:
        raise MslError(first[1], tokens.location(first[0]))


def violations(
    tokens: TokenStream, found: Declarations, language_version: tuple[int, int]
) -> Violations:
    """(token, message) of all violations, in no order."""
    yield from _forbidden_words(tokens, language_version)
    yield from _unqualified_pointers(tokens)
    yield from _static_variables(tokens, found)
    yield from _recursion(tokens, found)
    yield from _kernel_results(tokens, found)
    yield from _misplaced_atomics(tokens, found)


def _forbidden_words(tokens: TokenStream, language_version: tuple[int, int]) -> Violations:
    text = tokens.text
    for i, token in enumerate(text):
        if token in _FORBIDDEN and tokens.kind[i] == "name":
            yield i, _FORBIDDEN[token]
        elif token == "delete" and text[i - 1] not in ("=", "operator"):
            yield i, "'delete' is not supported in Metal: there is no heap"
        elif token == "bfloat" and language_version < (3, 1):
            yield i, "'bfloat' needs language version 3.1"
        elif token == "[" and language_version < (3, 2) and _is_lambda(tokens, i):
            yield i, "lambda expressions need language version 3.2"


def _is_lambda(tokens: TokenStream, i: int) -> bool:
    """Whether '[' at i introduces a lambda: not an index, array bound or attribute."""
    if i in tokens.attributes or i - 1 in tokens.attributes or i == 0:
        return False
    before = tokens.text[i - 1]
    if (is_name(before) and before != "return") or before in (")", "]", ">", "["):
        return False
    after = tokens.text[tokens.match[i] + 1 : tokens.match[i] + 2]
    return after in (["("], ["{"], ["mutable"], ["->"])


def _unqualified_pointers(tokens: TokenStream) -> Violations:
    """`float* p`, `int& r`: MSL wants an address space for every pointer and reference."""
    text = tokens.text
    for i, token in enumerate(text[:-1]):
        if token not in SCALARS or text[i + 1] not in ("*", "&"):
            continue
        if text[i + 1] == text[i + 2] == "&":
            continue
        before = i - 1
        while before >= 0 and text[before] in _QUALIFIERS:
            before -= 1
        if before < 0 or text[before] not in ADDRESS_SPACES:
            kind = "pointer" if text[i + 1] == "*" else "reference"
            message = (
                f"{kind} type must have explicit address space qualifier, as in 'device {token}"
            )
            yield i, f"{message}{text[i + 1]}'"


def _static_variables(tokens: TokenStream, found: Declarations) -> Violations:
    for function in found.functions:
        if not function.body or function.is_class:
            continue
        for i in range(*function.body):
            if tokens.text[i] != "static" or tokens.text[i - 1] not in (";", "{", "}"):
                continue
            following = tokens.text[i + 1 : i + 4]
            if not {"constant", "constexpr", "threadgroup"} & set(following):
                yield i, "a static variable of a function must be in the constant address space"


def _recursion(tokens: TokenStream, found: Declarations) -> Violations:
    """Functions that call themselves, directly or not.

    Only names with one definition that is neither a template nor a member are followed: there, a
    call by that name is a call of that function.
    """
    by_name: dict[str, list[Function]] = {}
    for function in found.functions:
        if function.body:
            by_name.setdefault(function.name, []).append(function)
    single = {
        name: functions[0]
        for name, functions in by_name.items()
        if len(functions) == 1 and not functions[0].is_class
        if not functions[0].is_template and not functions[0].is_member
    }
    calls = {name: _calls(tokens, f, single) for name, f in single.items()}
    for name, function in single.items():
        if _reaches(name, calls):
            yield function.name_at, f"recursive function calls are not supported in Metal: '{name}'"


def _calls(tokens: TokenStream, function: Function, known: dict[str, Function]) -> set[str]:
    """Known functions that this one calls with as many arguments as they have parameters."""
    text = tokens.text
    start, end = function.body or (0, 0)
    return {
        text[i]
        for i in range(start, end)
        if text[i] in known and text[i + 1] == "(" and text[i - 1] not in ("::", ".", "->")
        if _count(tokens, i + 1) == len(known[text[i]].parameters)
    }


def _count(tokens: TokenStream, opening: int) -> int:
    return len(list(tokens.split(opening + 1, tokens.match[opening])))


def _reaches(name: str, calls: dict[str, set[str]]) -> bool:
    todo, seen = list(calls[name]), set()
    while todo:
        called = todo.pop()
        if called == name:
            return True
        if called not in seen:
            seen.add(called)
            todo.extend(calls[called])
    return False


def _kernel_results(tokens: TokenStream, found: Declarations) -> Violations:
    for kernel in found.kernels():
        head = tokens.text[kernel.template_end : kernel.name_at]
        if "void" not in head:
            yield kernel.name_at, f"kernel '{kernel.name}' must return void"


_ATOMIC = re.compile(r"atomic_(int|uint|bool|ulong|float)")


def _misplaced_atomics(tokens: TokenStream, found: Declarations) -> Violations:
    """Atomics are in device memory; those of 32 bits but float in threadgroup memory as well."""
    text = tokens.text
    bodies = [f.body for f in found.functions if f.body and not f.is_class]
    for i, token in enumerate(text[:-1]):
        named = _ATOMIC.fullmatch(token)
        if not named and not (token == "atomic" and text[i + 1] == "<"):
            continue
        kind = named[1] if named else text[i + 2]
        end = i + 1 if named else tokens.template_end(i + 1) or i + 1
        before = i - 1
        while text[before] in _QUALIFIERS or text[before] in ADDRESS_SPACES:
            before -= 1
        spaces = set(text[before + 1 : i]) & ADDRESS_SPACES
        if "threadgroup" in spaces and kind in ("float", "ulong"):
            yield (
                i,
                f"atomic_{kind} in threadgroup memory is not supported in Metal, only in device",
            )
        elif spaces & {"thread", "constant"}:
            yield i, "an atomic must be in device or threadgroup memory"
        elif (
            not spaces
            and text[before] in ("{", "}", ";")
            and is_name(text[end])
            and any(start < i < stop for start, stop in bodies)
        ):
            yield i, "an atomic must be in device or threadgroup memory, not a thread's variable"


CONTRACTION = re.compile(
    r"[ \t]*#[ \t]*pragma[ \t]+(clang[ \t]+fp[ \t]+contract[ \t]*\([ \t]*(on|fast)|"
    r"STDC[ \t]+FP_CONTRACT[ \t]+(ON|DEFAULT)|METAL[ \t]+fp\b|METAL[ \t]+internals)",
)
