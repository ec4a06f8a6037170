"""Docstrings say "docs/norms.md" to whoever reads them in a terminal; in the site it is a link."""

import re
from typing import Any

from sphinx.application import Sphinx

PAGE = re.compile(r"(?<![\w/`])(docs/\w+)\.md\b")


def _link(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = [PAGE.sub(r":doc:`\1.md </\1>`", line) for line in lines]


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _link)
    return {"parallel_read_safe": True}
