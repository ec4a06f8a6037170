"""What Metal 3.1 lacks, though clang accepts it as C++."""

from __future__ import annotations

import re

from mslc import restrictions

from .source import Found, Source

# Beyond what mslc refuses: it must compile what other projects get away with.
_WORDS = {
    "noexcept": "'noexcept' is not supported in Metal",
    "register": "'register' is not supported in Metal",
    "wchar_t": "'wchar_t' is not supported in Metal",
    "std": "Metal has no C++ standard library: 'std'",
    "friend": "not in kernels: 'friend'",
    "mutable": "not in kernels: 'mutable'",
    "co_return": "coroutines are not supported in Metal",
    "co_yield": "coroutines are not supported in Metal",
    "va_list": "variable arguments are not supported in Metal",
}
_FLOAT64 = re.compile(
    r"(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[lL]|0[xX][\da-fA-F.]+[pP][+-]?\d+[lL]"
)


def check(source: Source) -> Found:
    """All violations."""
    tokens, found = source.tokens, source.found
    yield from restrictions.violations(tokens, found, source.version)
    text = tokens.text
    for i, word in enumerate(text):
        if tokens.kind[i] == "name" and word in _WORDS and text[i - 1] not in (".", "->"):
            yield i, _WORDS[word]
        elif word == "long" and text[i + 1 : i + 2] == ["long"]:
            yield i, "'long long' is not supported in Metal: long has 64 bits"
        elif _is_derived(source, i):
            yield i, f"derived classes are not supported in Metal: '{text[i + 1]}'"
        elif word == "." and text[i : i + 3] == [".", ".", "."] and text[i + 3 : i + 4] == [")"]:
            if text[i - 1] in ("(", ","):
                yield i, "variable arguments are not supported in Metal"
        elif tokens.kind[i] == "number" and _is_long_double(word):
            yield i, f"'long double' is not supported in Metal: {word}"


def _is_derived(source: Source, i: int) -> bool:
    """Whether `struct X ... : base {` starts at i."""
    tokens = source.tokens
    if tokens.text[i] not in ("struct", "class") or tokens.text[i - 1] == "enum":
        return False
    while i + 1 < len(tokens) and tokens.text[i] not in ("{", ";", ")", ">", ",", "="):
        if tokens.text[i] == ":":
            return True
        i = tokens.template_end(i) or i + 1 if tokens.text[i] == "<" else i + 1
    return False


def _is_long_double(number: str) -> bool:
    return bool(_FLOAT64.fullmatch(number)) and bool(re.search(r"[.eEpP]", number[:-1]))
