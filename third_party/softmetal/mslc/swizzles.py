"""Compound assignments to components of vectors.

Components are properties here (msl/library/swizzle.h), for which clang makes `v.x = v.x + e` of
`v.x += e`. It does not where the vector's type depends on a template parameter, and then nothing
narrows the sum to bfloat.
"""

from __future__ import annotations

import re

from .model import Declarations
from .tokens import TokenStream, is_name

_SWIZZLE = re.compile(r"[xyzw]{1,4}|[rgba]{1,4}")
_BEFORE = frozenset([";", "{", "}", ")", ",", "(", "else"])
# The function of msl/library/vector_ops.h that does it, by the operator's tokens.
_ASSIGNMENTS = {
    ("+", "="): "added",
    ("-", "="): "subtracted",
    ("*", "="): "multiplied",
    ("/", "="): "divided",
    ("%", "="): "remaindered",
    ("&", "="): "masked",
    ("|", "="): "joined",
    ("^", "="): "toggled",
    ("<", "<", "="): "shifted_left",
    (">", ">", "="): "shifted_right",
    ("+", "+"): "added",
    ("-", "-"): "subtracted",
}


def rewrite_assignments(tokens: TokenStream, found: Declarations) -> None:
    """`v.x += e` to `v.x = softmetal::added(v.x, e)`, in all functions."""
    for function in found.functions:
        if function.body and not function.is_class:
            for i in range(*function.body):
                if tokens.text[i - 1] in _BEFORE:
                    _rewrite_prefix(tokens, i)
                    _rewrite_at(tokens, i)


def _rewrite_prefix(tokens: TokenStream, start: int) -> None:
    """`++v.x`"""
    function = _ASSIGNMENTS.get(tuple(tokens.text[start : start + 2]))
    end = _component_end(tokens, start + 2) if function else None
    if end is not None:
        target = tokens.printed(start + 2, end)
        tokens.remove(start, start + 2)
        tokens.append(end - 1, f" = ::softmetal::{function}({target}, 1)")


def _rewrite_at(tokens: TokenStream, start: int) -> None:
    """`v.x += e`, `v.x++`"""
    operator_at = _component_end(tokens, start)
    if operator_at is None:
        return
    for length in (2, 3):
        written = tuple(tokens.text[operator_at : operator_at + length])
        if written not in _ASSIGNMENTS:
            continue
        target = tokens.printed(start, operator_at)
        call = f"= ::softmetal::{_ASSIGNMENTS[written]}({target}, "
        tokens.remove(operator_at, operator_at + length)
        if written[-1] == "=":
            tokens.replace(operator_at, call)
            tokens.append(_expression_end(tokens, operator_at + length) - 1, ")")
        else:
            tokens.replace(operator_at, call + "1)")


def _component_end(tokens: TokenStream, i: int) -> int | None:
    """The index after `a.b[i].xy`, if that is what stands at i and evaluating it twice is safe."""
    text = tokens.text
    if not is_name(text[i]):
        return None
    i += 1
    last = ""
    while True:
        if text[i] in (".", "->") and is_name(text[i + 1]):
            last = text[i + 1]
            i += 2
        elif text[i] == "[":
            after = tokens.skip_brackets(i)
            if set(text[i + 1 : after - 1]) & {"=", "(", "+", "-"}:
                return None
            last = ""
            i = after
        else:
            return i if _SWIZZLE.fullmatch(last) else None


def _expression_end(tokens: TokenStream, i: int) -> int:
    """The index of the ';', ',' or bracket that ends the expression at i."""
    while tokens.text[i] not in (";", ",", ")", "]", "}"):
        angle_end = tokens.template_end(i) if tokens.text[i] == "<" else None
        if tokens.text[i] in ("(", "[", "{"):
            i = tokens.skip_brackets(i)
        else:
            i = angle_end or i + 1
    return i
