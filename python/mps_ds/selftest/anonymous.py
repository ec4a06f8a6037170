"""Takes out of a report what is about the person and not about the machine.

Paths keep what tells something about the software (the package and file), not where it is
installed; user, full and host names go.
"""

import getpass
import os
import re
import socket
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

_SHORTEST_NAME = 3  # a shorter one occurs in other words' places too often to be replaced
_NOT_PERSONAL = frozenset(["root", "localhost", "runner"])

# Up to what stands here, a path says only where things are installed.
_UNINTERESTING = re.compile(r".*/(?=(?:site-packages|dist-packages|python3\.\d+|mps_ds)/)")
_PATH = re.compile(r"(?<![\w.~>/])(?:file://)?(/[^\s/:;,\"'<>|()\[\]{}]+){2,}/?")


class Anonymizer:
    """Replaces personal names and places in texts."""

    def __init__(self, places: Mapping[str, str], names: Mapping[str, str]) -> None:
        """`places`: folder -> what to say instead; `names`: the same for words."""
        by_length = sorted(places.items(), key=lambda item: -len(item[0]))
        self._places = [(place, instead) for place, instead in by_length if len(place) > 1]
        self._names = [
            (re.compile(rf"(?<![^\W_]){re.escape(name)}(?![^\W_])", re.IGNORECASE), instead)
            for name, instead in sorted(names.items(), key=lambda item: -len(item[0]))
            if len(name) >= _SHORTEST_NAME and name.lower() not in _NOT_PERSONAL
        ]

    def text(self, text: str) -> str:
        """The text without personal names and places."""
        text = _PATH.sub(lambda found: _UNINTERESTING.sub("<path>/", found[0]), text)
        for place, instead in self._places:
            text = text.replace(place, instead)
        text = _PATH.sub(lambda found: f"<path>/{found[0].rstrip('/').rsplit('/', 1)[1]}", text)
        for name, instead in self._names:
            text = name.sub(instead, text)
        return text

    def value(self, value: Any) -> Any:
        """The same for all texts of a JSON value; other types become texts first."""
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(item) for key, item in value.items()}
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Sequence):
            return [self.value(item) for item in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        return self.text(str(value))


def of_this_process() -> Anonymizer:
    """For the user, host and folders of this process."""
    places = {
        str(Path.home()): "~",
        os.getcwd(): "<here>",
        tempfile.gettempdir(): "<temporary>",
        sys.prefix: "<python>",
        sys.base_prefix: "<python>",
    }
    places.update({os.path.realpath(place): instead for place, instead in places.items()})
    host = socket.gethostname()
    names = dict.fromkeys(_user_names(), "<user>")
    names.update({host: "<host>", host.split(".")[0]: "<host>"})
    return Anonymizer(places, names)


def _user_names() -> Iterable[str]:
    """Login name, full name and its parts."""
    for variable in ("USER", "LOGNAME", "SUDO_USER"):
        yield os.environ.get(variable, "")
    try:
        yield getpass.getuser()
        import pwd

        full_name = pwd.getpwuid(os.getuid()).pw_gecos.split(",")[0]
    except (ImportError, KeyError, OSError):
        return
    yield full_name
    yield from full_name.split()
