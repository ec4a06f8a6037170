"""The token stream of one preprocessed file: significant tokens by index, brackets matched."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from .errors import Location, MslError

_TOKEN = re.compile(
    r"""
    (?P<directive> ^[ \t]*\#[^\n]* )
  | (?P<space>     [ \t\r\f\v]+ | \n )
  | (?P<string>    (?:u8|[uUL])?"(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' )
  | (?P<number>    \.?\d(?:[eEpP][+-]|[\w.])* )
  | (?P<name>      [A-Za-z_]\w* )
  | (?P<symbol>    :: | -> | \S )
    """,
    re.MULTILINE | re.VERBOSE,
)
_LINE_MARKER = re.compile(r'[ \t]*#(?:[ \t]*line)?[ \t]+(\d+)(?:[ \t]+"((?:\\.|[^"\\])*)")?')

OPENING = {"(": ")", "[": "]", "{": "}"}
CLOSING = frozenset(OPENING.values())

ADDRESS_SPACES = frozenset(
    ["device", "constant", "thread", "threadgroup", "ray_data", "object_data"]
) | {"threadgroup_imageblock"}


def is_name(text: str) -> bool:
    """Whether a token is an identifier or keyword."""
    return text[:1].isalpha() or text[:1] == "_"


class TokenStream:
    """Significant tokens (no space, no preprocessor line) with a place for what replaces each.

    text[i]       token i as written
    match[i]      index of the bracket that belongs to bracket i
    attributes    start -> end (exclusive) of each [[...]]
    """

    def __init__(self, source: str) -> None:
        self._pieces: list[str] = []  # everything, as it will be printed
        self._place: list[int] = []  # token -> piece
        self._line_of_piece: list[int] = []
        self.text: list[str] = []
        self.kind: list[str] = []
        self._markers: list[tuple[int, str, int]] = []  # physical line, file, line there
        self._read(source)
        self.match = self._matched_brackets()
        self.attributes = self._attribute_ranges()

    def __len__(self) -> int:
        return len(self.text)

    def _read(self, source: str) -> None:
        line = 1
        file = "<source>"
        self._markers.append((1, file, 1))
        for found in _TOKEN.finditer(source):
            kind, text = found.lastgroup or "", found.group()
            if kind == "directive":
                marker = _LINE_MARKER.match(text)
                if marker:
                    if marker[2] is not None:
                        file = marker[2].replace("\\\\", "\\").replace('\\"', '"')
                    self._markers.append((line + 1, file, int(marker[1])))
            elif kind != "space":
                self._place.append(len(self._pieces))
                self._line_of_piece.append(line)
                self.text.append(text)
                self.kind.append(kind)
            self._pieces.append(text)
            line += text.count("\n")

    def _matched_brackets(self) -> dict[int, int]:
        match: dict[int, int] = {}
        open_brackets: list[int] = []
        for i, token in enumerate(self.text):
            if token in OPENING:
                open_brackets.append(i)
            elif token in CLOSING:
                if not open_brackets or OPENING[self.text[open_brackets[-1]]] != token:
                    raise MslError(f"extraneous closing '{token}'", self.location(i))
                opening = open_brackets.pop()
                match[opening], match[i] = i, opening
        if open_brackets:
            i = open_brackets[-1]
            raise MslError(f"'{self.text[i]}' is never closed", self.location(i))
        return match

    def _attribute_ranges(self) -> dict[int, int]:
        ranges: dict[int, int] = {}
        i = 0
        while i + 1 < len(self.text):
            if self.text[i] == self.text[i + 1] == "[" and self.match[i] == self.match[i + 1] + 1:
                ranges[i] = self.match[i] + 1
                i = self.match[i]
            i += 1
        return ranges

    # ---- places ----

    def location(self, i: int) -> Location:
        """Where token i stands in the original source."""
        line = self._line_of_piece[min(i, len(self._line_of_piece) - 1)]
        start, file, first = self._markers[bisect_right(self._markers, (line, "\U0010ffff", 0)) - 1]
        return Location(file, first + line - start)

    # ---- replacing ----

    def replace(self, i: int, text: str) -> None:
        """Print `text` instead of token i."""
        self._pieces[self._place[i]] = text

    def append(self, i: int, text: str) -> None:
        """Print `text` after token i (or what replaced it)."""
        self._pieces[self._place[i]] += text

    def prepend(self, i: int, text: str) -> None:
        """Print `text` before token i."""
        self._pieces[self._place[i]] = text + self._pieces[self._place[i]]

    def remove(self, start: int, end: int) -> None:
        """Print blanks for the tokens [start, end), so that columns stay what they are."""
        for i in range(start, end):
            self.replace(i, " " * len(self.text[i]))

    def drop_directives(self, unwanted: re.Pattern[str]) -> None:
        """Print an empty line for each preprocessor line that matches."""
        for i, piece in enumerate(self._pieces):
            if piece.lstrip().startswith("#") and unwanted.match(piece):
                self._pieces[i] = ""

    def printed(self, start: int, end: int) -> str:
        """What replaced the tokens [start, end), on one line: adjacent tokens stay adjacent."""
        parts = []
        for i in range(start, end):
            if i > start and self._place[i] > self._place[i - 1] + 1:
                parts.append(" ")
            parts.append(self._pieces[self._place[i]])
        return " ".join("".join(parts).split())

    def current(self, i: int) -> str:
        """What is printed for token i."""
        return self._pieces[self._place[i]]

    def result(self) -> str:
        """The whole file as it is now."""
        return "".join(self._pieces)

    # ---- structure ----

    def written(self, start: int, end: int) -> str:
        """The tokens [start, end) as written, on one line."""
        return " ".join(self.text[start:end])

    def skip_brackets(self, i: int) -> int:
        """The index after the bracket that closes bracket i."""
        return self.match[i] + 1

    def template_end(self, i: int) -> int | None:
        """For '<' at i: the index after its '>', or None if it is a comparison.

        A '<' after a name may open template arguments or compare. Opening is tried first; if the
        arguments then never end, it compares (`enable_if_t<N < 8>`).
        """
        if i == 0 or not (is_name(self.text[i - 1]) and self.text[i - 1] != "operator"):
            return None
        return self.opened_template_end(i)

    def opened_template_end(self, i: int) -> int | None:
        """For a '<' at i that is known to open: the index after its '>', if there is one."""
        return self._angle_end(i + 1, 1)

    def _angle_end(self, i: int, depth: int) -> int | None:
        while i < len(self.text):
            token = self.text[i]
            if token in ("(", "[") or (token == "{" and is_name(self.text[i - 1])):
                i = self.match[i] + 1
                continue
            if token in (";", "{") or token in CLOSING:
                return None
            if token == ">":
                depth -= 1
                if depth == 0:
                    return i + 1
            elif token == "<" and is_name(self.text[i - 1]):
                end = self._angle_end(i + 1, depth + 1)
                if end is not None:
                    return end
            i += 1
        return None

    def split(self, start: int, end: int, separator: str = ",") -> Iterator[tuple[int, int]]:
        """The ranges of [start, end) between separators outside of all brackets."""
        begin = i = start
        while i < end:
            token = self.text[i]
            if token in OPENING:
                i = self.match[i]
            elif token == "<":
                angle_end = self.template_end(i)
                if angle_end is not None and angle_end <= end:
                    i = angle_end - 1
            elif token == separator:
                yield begin, i
                begin = i + 1
            i += 1
        if begin < end:
            yield begin, end

    def attribute_items(self, start: int, end: int) -> Iterator[tuple[str, str | None, int]]:
        """(name, arguments or None, token) of each item of each [[...]] in [start, end)."""
        for i in range(start, end):
            if i not in self.attributes:
                continue
            for first, last in self.split(i + 2, self.attributes[i] - 2):
                has_arguments = last - first > 2 and self.text[first + 1] == "("
                arguments = self.written(first + 2, last - 1) if has_arguments else None
                yield self.text[first], arguments, first

    def attribute(self, start: int, end: int, name: str) -> str | None:
        """Arguments of [[name(...)]] in [start, end)."""
        found = (args for item, args, _ in self.attribute_items(start, end) if item == name)
        return next(found, None)
