"""Our own rule: no threadgroup waits for another of the same dispatch, or reads what it wrote.

Metal does not promise that two threadgroups run at the same time, and 3.1 has no fence between
them: such code hangs or reads stale memory on some GPUs only. A result that needs all threadgroups
is made by a second dispatch. So:

- the result of an atomic operation that changes memory is not used (no tickets, no locks),
- no condition depends on an atomic operation inside of a loop (no spinning),
- no loop is without a body,
- nothing is volatile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mslc.model import Range
from mslc.tokens import TokenStream, is_name

from .source import Found, Source

_ATOMIC = re.compile(r"atomic_\w+")
_CHANGES = re.compile(
    r"atomic_(fetch_\w+|exchange|compare_exchange_\w+|flag_test_and_set)(_explicit)?"
)
_STATEMENT_BEFORE = frozenset([";", "{", "}", "else", "do"])


def check(source: Source) -> Found:
    """All violations."""
    tokens = source.tokens
    for i, word in enumerate(tokens.text):
        if word == "volatile":
            yield i, "'volatile': nothing that another threadgroup writes may be read"
        elif (
            _CHANGES.fullmatch(word) and tokens.text[i + 1] == "(" and not _is_statement(tokens, i)
        ):
            yield (
                i,
                f"the result of {word}() is used: a ticket or lock depends on the order of "
                "threadgroups; use a second dispatch",
            )
    for function in source.found.functions:
        if function.body and not function.is_class:
            yield from _loops(tokens, function.body)


def _is_statement(tokens: TokenStream, i: int) -> bool:
    """Whether the call at i is all of a statement, `(void)` before it or not."""
    first = i
    while tokens.text[first - 1] in ("::", "metal"):
        first -= 1
    if tokens.text[first - 3 : first] == ["(", "void", ")"]:
        first -= 3
    before = tokens.text[first - 1]
    starts = before in _STATEMENT_BEFORE or (before == ")" and _is_head(tokens, first - 1))
    return starts and tokens.text[tokens.skip_brackets(i + 1)] == ";"


def _is_head(tokens: TokenStream, closing: int) -> bool:
    return tokens.text[tokens.match[closing] - 1] in ("if", "for", "while")


def _loops(tokens: TokenStream, body: Range) -> Iterator[tuple[int, str]]:
    for i in range(*body):
        word = tokens.text[i]
        if word == "do" and tokens.text[i + 1] == "{":
            loop = (i + 1, tokens.skip_brackets(i + 1))
            condition = (loop[1] + 1, tokens.skip_brackets(loop[1] + 1))
        elif word in ("while", "for") and not _ends_do(tokens, i):
            condition = (i + 1, tokens.skip_brackets(i + 1))
            loop = (condition[1], _statement_end(tokens, condition[1]))
        else:
            continue
        if set(tokens.text[slice(*loop)]) <= {"{", "}", ";"}:
            yield i, f"'{word}' without a body: a loop that waits"
        yield from _conditions(tokens, i, condition, loop)


def _ends_do(tokens: TokenStream, i: int) -> bool:
    """Whether the `while` at i belongs to a `do`."""
    before = tokens.text[i - 1]
    return before == "}" and tokens.text[tokens.match[i - 1] - 1] == "do"


def _statement_end(tokens: TokenStream, i: int) -> int:
    """The index after the statement that starts at i."""
    while tokens.text[i] != ";":
        if tokens.text[i] == "{":
            end = tokens.skip_brackets(i)
            if tokens.text[end] != "else":
                return end
            i = end
        elif tokens.text[i] == "(":
            i = tokens.match[i]
        i += 1
    return i + 1


def _conditions(
    tokens: TokenStream, at: int, condition: Range, loop: Range
) -> Iterator[tuple[int, str]]:
    """Whether the loop's condition, or one inside of it, depends on an atomic operation."""
    tainted = _set_from_atomics(tokens, (condition[0], max(loop[1], condition[1])))
    for start, end in [condition, *_inner_conditions(tokens, loop)]:
        used = tokens.text[start:end]
        if tainted & set(used) or any(_ATOMIC.fullmatch(t) for t in used):
            line = tokens.location(start).line
            yield (
                at,
                f"a loop whose condition in line {line} depends on an atomic operation waits for "
                "another thread; use a second dispatch",
            )
            return


def _inner_conditions(tokens: TokenStream, loop: Range) -> Iterator[Range]:
    for i in range(*loop):
        if tokens.text[i] in ("if", "while", "for", "switch") and tokens.text[i + 1] == "(":
            yield i + 1, tokens.skip_brackets(i + 1)
        elif tokens.text[i] == "?":
            start = i
            while tokens.text[start - 1] not in (";", "{", "}", "="):
                start -= 1
            yield start, i


def _set_from_atomics(tokens: TokenStream, where: Range) -> set[str]:
    """Variables that are set from an atomic operation, or from another such variable."""
    tainted: set[str] = set()
    grown = True
    while grown:
        grown = False
        for i in range(*where):
            if tokens.text[i] != "=" or not is_name(tokens.text[i - 1]):
                continue
            end = i
            while tokens.text[end] not in (";", "{", "}") and end < where[1]:
                end += 1
            value = tokens.text[i + 1 : end]
            if tokens.text[i - 1] not in tainted and (
                tainted & set(value) or any(_ATOMIC.fullmatch(t) for t in value)
            ):
                tainted.add(tokens.text[i - 1])
                grown = True
    return tainted
