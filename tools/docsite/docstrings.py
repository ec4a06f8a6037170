"""What docstrings need on their way into the site."""

import builtins
import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

PAGE = re.compile(r"(?<![\w/`])((?:docs|third_party/\w+)/\w+)\.md\b")


def _link(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """They say "docs/norms.md" to whoever reads them in a terminal; here it is a link."""
    lines[:] = [PAGE.sub(r":doc:`\1.md </\1>`", line) for line in lines]


def _leave_builtins(app: Sphinx, document: nodes.document) -> None:
    """The type `bytes` in a signature is not the attribute `Traffic.bytes`."""
    for node in list(document.findall(addnodes.pending_xref)):
        if node["reftype"] == "class" and hasattr(builtins, node["reftarget"]):
            node.replace_self(node.children)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _link)
    app.connect("doctree-read", _leave_builtins)
    return {"parallel_read_safe": True}
