"""Finds the declarations of a file that matter to mslc: a walk over namespaces and classes.

Function bodies are not parsed; what is needed of them is read from their tokens.
"""

from __future__ import annotations

import json
import re

from .errors import MslError
from .model import Declarations, Function, FunctionConstant, Instance, ProgramConstant, Range
from .tokens import ADDRESS_SPACES, TokenStream, is_name

# Words before a '(' that belong to a declaration but are no function name.
_NOT_A_FUNCTION = frozenset(
    ["decltype", "alignas", "static_assert", "__attribute__", "noexcept", "explicit", "sizeof"]
)
_AFTER_PARAMETERS = frozenset(["const", "noexcept", "override", "volatile", "&"])
# What may stand before the name of a constructor.
_NO_RESULT = frozenset(
    ["constexpr", "explicit", "inline", "__attribute__", "(", ")", "__always_inline__"]
)
_NOT_A_VARIABLE = frozenset(
    ["using", "typedef", "static_assert", "enum", "struct", "class", "union"]
) | {"namespace", "friend", "extern", "template"}


def parse(tokens: TokenStream) -> Declarations:
    """All declarations of the file."""
    parser = _Parser(tokens)
    parser.scope(0, len(tokens), (), in_class=False)
    return parser.found


class _Parser:
    def __init__(self, tokens: TokenStream) -> None:
        self.tokens = tokens
        self.found = Declarations()
        # Definitions by scope and by signature without address spaces.
        self._defined: dict[tuple[str, ...], dict[str, Range]] = {}

    # ---- scopes ----

    def scope(self, i: int, end: int, namespace: tuple[str, ...], in_class: bool) -> None:
        """The declarations in [i, end)."""
        tokens = self.tokens
        start = i
        while i < end:
            token = tokens.text[i]
            if i in tokens.attributes:
                i = tokens.attributes[i]
            elif token == ";":
                self._statement(start, i, namespace, in_class)
                i = start = i + 1
            elif token == ":" and in_class and self._is_access_label(start, i):
                i = start = i + 1
            elif token == "template" and tokens.text[i + 1 : i + 2] == ["<"]:
                i = self._template_header_end(i)
            elif token == "(":
                function_end = self._function_at(start, i, end, namespace, in_class)
                if function_end is None:
                    i = tokens.skip_brackets(i)
                else:
                    i = start = function_end
            elif token == "{":
                i, start = self._braces(start, i, namespace, in_class)
            else:
                i += 1

    def _is_access_label(self, start: int, i: int) -> bool:
        return i - start == 1 and self.tokens.text[start] in ("public", "private", "protected")

    def _template_header_end(self, i: int) -> int:
        """The index after `template <...>` at i."""
        end = self.tokens.opened_template_end(i + 1)
        if end is None:
            raise MslError("the '<' of 'template <' is never closed", self.tokens.location(i))
        return end

    def _skip_template_headers(self, i: int) -> int:
        text = self.tokens.text
        while text[i : i + 2] == ["template", "<"]:
            i = self._template_header_end(i)
        return i

    def _braces(
        self, start: int, i: int, namespace: tuple[str, ...], in_class: bool
    ) -> tuple[int, int]:
        """A '{' at i that opens no function body. Returns (next token, start of declaration)."""
        tokens = self.tokens
        after = tokens.skip_brackets(i)
        head_start = self._skip_template_headers(start)
        head = tokens.text[head_start:i]
        if "namespace" in head or (head[:1] == ["extern"] and len(head) == 2):
            names = tuple(
                t for t in head if is_name(t) and t not in ("namespace", "inline", "extern")
            )
            self.scope(i + 1, after - 1, namespace + names, in_class=False)
            return after, after
        is_class = "=" not in head and "enum" not in head
        keyword = next((t for t in head if t in ("struct", "class", "union")), None)
        if is_class and keyword:
            if self._is_duplicate(start, i, after, namespace, ".class"):
                semicolon = tokens.text[after : after + 1] == [";"]
                self.found.duplicates.append((start, after + semicolon))
                return after + semicolon, after + semicolon
            name = tokens.text[head_start + head.index(keyword) + 1]
            # Named by its whole head: a specialisation is a scope of its own.
            scope = (*namespace, self._without_spaces(start, i))
            self.scope(i + 1, after - 1, scope, in_class=True)
            self.found.functions.append(
                Function(name, namespace, start, after, head_start, body=(i, after), is_class=True)
            )
        return after, start

    # ---- statements ----

    def _statement(self, start: int, end: int, namespace: tuple[str, ...], in_class: bool) -> None:
        """A declaration without a function's parameter list, up to its ';'."""
        tokens = self.tokens
        if start >= end:
            return
        if tokens.text[start] == "template" and tokens.text[start + 1] != "<":
            self._instantiation(start, end, end + 1, namespace)
            return
        first = self._skip_template_headers(start)
        while first in tokens.attributes:
            first = tokens.attributes[first]
        if first >= end:
            return
        if tokens.text[first] in ("using", "typedef"):
            self._alias(first, end)
        elif in_class:
            if {"static", "constexpr"} <= set(tokens.text[first:end]):
                self.found.static_members.append(first)
        elif tokens.text[first] not in _NOT_A_VARIABLE:
            self._variable(start, first, end, namespace)

    def _alias(self, start: int, end: int) -> None:
        text = self.tokens.text
        name = text[start + 1] if text[start] == "using" else text[end - 1]
        used = {t for t in text[start + 1 : end] if is_name(t) and t != name}
        self.found.aliases.setdefault(name, set()).update(used)

    def _variable(self, start: int, first: int, end: int, namespace: tuple[str, ...]) -> None:
        tokens = self.tokens
        index = tokens.attribute(first, end, "function_constant")
        if index is not None:
            at = next(i for i in range(first, end) if i in tokens.attributes)
            name = tokens.text[at - 1]
            self.found.function_constants.append(
                FunctionConstant(name, namespace, index, start, at - 1)
            )
            return
        text = tokens.text[first:end]
        if "constant" not in text:
            raise MslError(
                "program scope variable must reside in constant address space: write 'constant'",
                tokens.location(first),
            )
        for i in range(first, end):
            if tokens.text[i] == "=" and is_name(tokens.text[i - 1]):
                name = tokens.text[i - 1]
                self.found.program_constants.append(ProgramConstant(name, namespace, start, i, end))
                used = {t for t in tokens.text[i + 1 : end] if is_name(t)}
                self.found.aliases.setdefault(name, set()).update(used)
                break

    # ---- functions ----

    def _function_at(
        self, start: int, opening: int, end: int, namespace: tuple[str, ...], in_class: bool
    ) -> int | None:
        """If '(' at `opening` starts a parameter list: the index after the whole function."""
        tokens = self.tokens
        before = tokens.text[opening - 1] if opening > start else ""
        if before == "operator" or before in _NOT_A_FUNCTION or not before:
            return None
        head_start = self._skip_template_headers(start)
        head = tokens.text[head_start:opening]
        if "=" in head and "operator" not in head:
            return None
        body, members = self._after_parameters(tokens.skip_brackets(opening), end)
        if body is None:
            return None
        is_definition = tokens.text[body] == "{"
        after = (tokens.match[body] if is_definition else body) + 1
        explicit = tokens.text[start] == "template" and tokens.text[start + 1] != "<"
        if explicit:
            self._instantiation(start, opening, after, namespace)
            return after
        name_at = self._function_name(opening)
        if not is_name(tokens.text[name_at]) and "operator" not in head:
            return None
        is_constructor = all(t in _NO_RESULT for t in tokens.text[head_start:name_at])
        for i in members:  # the address space of *this
            if tokens.text[i] != "constant" or is_constructor:
                tokens.remove(i, i + 1)
        function = Function(
            name=tokens.text[name_at],
            namespace=namespace,
            start=start,
            end=after,
            template_end=head_start,
            name_at=name_at,
            parameters=list(tokens.split(opening + 1, tokens.match[opening])),
            body=(body, after) if is_definition else None,
            is_kernel=self._is_kernel(head_start, opening),
            is_member=in_class,
        )
        after_parameters = set(tokens.text[tokens.skip_brackets(opening) : body])
        is_const = {"const"} | (set() if is_constructor else {"constant"})
        qualifiers = "const" if after_parameters & is_const else ""
        if is_definition and self._is_duplicate(
            start, tokens.skip_brackets(opening), after, namespace, qualifiers
        ):
            self.found.duplicates.append((start, after))
        else:
            self.found.functions.append(function)
        return after

    def _is_kernel(self, start: int, end: int) -> bool:
        if "kernel" in self.tokens.text[start:end]:
            return True
        return any(name == "kernel" for name, _, _ in self.tokens.attribute_items(start, end))

    def _function_name(self, opening: int) -> int:
        """The token that names the function whose parameters open at `opening`."""
        text = self.tokens.text
        i = opening - 1
        if text[i] != ">" or "operator" in text[max(i - 2, 0) : i]:
            return i
        depth = 0
        while i > 0:  # f<float>(...)
            depth += (text[i] == ">") - (text[i] == "<")
            if depth == 0:
                return i - 1
            i -= 1
        return opening - 1

    def _after_parameters(self, i: int, end: int) -> tuple[int | None, list[int]]:
        """From the ')' on: the index of the function's '{' or ';', and address spaces seen."""
        tokens = self.tokens
        spaces = []
        while i < end:
            token = tokens.text[i]
            if i in tokens.attributes:
                i = tokens.attributes[i]
            elif token in ADDRESS_SPACES:
                spaces.append(i)
                i += 1
            elif token in _AFTER_PARAMETERS:
                i += 1
            elif token == "->":
                while tokens.text[i] not in ("{", ";"):
                    i = tokens.skip_brackets(i) if tokens.text[i] in ("(", "[") else i + 1
            elif token == ":":
                i = self._skip_initialisers(i + 1)
            elif token == "=" and tokens.text[i + 1] in ("default", "delete"):
                i += 2
            else:
                break
        if i < end and tokens.text[i] in ("{", ";"):
            return i, spaces
        return None, spaces

    def _skip_initialisers(self, i: int) -> int:
        """Past `a(x), b{y}` of a constructor."""
        tokens = self.tokens
        while True:
            while tokens.text[i] not in ("(", "{"):
                angle_end = tokens.template_end(i) if tokens.text[i] == "<" else None
                i = angle_end or i + 1
            i = tokens.skip_brackets(i)
            if tokens.text[i] != ",":
                return i
            i += 1

    # ---- instances ----

    def _instantiation(
        self, start: int, opening: int, after: int, namespace: tuple[str, ...]
    ) -> None:
        """An explicit instantiation: [start, opening) is all of it but the parameters."""
        tokens = self.tokens
        self.found.instantiations.append((start, after))
        host_name = tokens.attribute(start, opening, "host_name")
        if host_name is None:
            return
        name = "".join(json.loads(s) for s in re.findall(r'"(?:\\.|[^"\\])*"', host_name))
        specialisation = self._specialisation(start + 1, opening)
        self.found.instances.append(Instance(name, namespace, specialisation, start))

    def _specialisation(self, i: int, end: int) -> list[str]:
        """`f<float>` of `kernel void f<float>` or `kernel decltype(f<float>) f<float>`."""
        tokens = self.tokens
        result: list[str] = []
        while i < end:
            token = tokens.text[i]
            if i in tokens.attributes:
                i = tokens.attributes[i]
            elif token == "decltype" and not result:
                i = tokens.skip_brackets(i + 1)
            else:
                if token == "constant":
                    result.append("const")
                elif token not in ADDRESS_SPACES and (
                    result or token not in ("kernel", "void", "inline", "static")
                ):
                    result.append(token)
                i += 1
        return result

    # ---- overloads by address space ----

    def _is_duplicate(
        self, start: int, signature_end: int, end: int, scope: tuple[str, ...], kind: str
    ) -> bool:
        """Whether a definition differs from an earlier one by address spaces only.

        Here they are the same function; one is enough if both do the same.
        """
        signature = kind + self._without_spaces(start, signature_end)
        defined = self._defined.setdefault(scope, {})
        earlier = defined.setdefault(signature, (start, end))
        if earlier == (start, end):
            return False
        text = self.tokens.text
        if text[earlier[0] : earlier[1]] == text[start:end]:
            return False  # a real redefinition: the compiler says so
        if self._meaning(*earlier) != self._meaning(start, end):
            raise MslError(
                "overloads that differ only in address space must have the same body on the "
                f"software device; the other one is at {self.tokens.location(earlier[0])}",
                self.tokens.location(start),
            )
        return True

    def _meaning(self, start: int, end: int) -> str:
        """What must be equal in two overloads; `constant` of *this has become const or nothing."""
        return self._without_spaces(start, end).replace("const ", "")

    def _without_spaces(self, start: int, end: int) -> str:
        words: list[str] = []
        i = start
        while i < end:
            if i in self.tokens.attributes:
                i = self.tokens.attributes[i]
                continue
            token = self.tokens.text[i]
            if token == "constant":
                token = "const"
            if token not in ADDRESS_SPACES and not (token == "const" and words[-1:] == ["const"]):
                words.append(token)
            i += 1
        return " ".join(words)


def statement_starts(tokens: TokenStream, body: Range) -> list[int]:
    """Tokens of a function body at which a statement may start."""
    start, end = body
    after = (";", "{", "}")
    return [i for i in range(start + 1, end) if tokens.text[i - 1] in after]
