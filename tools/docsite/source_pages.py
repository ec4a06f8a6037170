"""Links from pages to files of the repository lead to pages of the site that show the files.

On GitHub such a link opens the file. MyST makes a download of it, which is right for what is not
text only. That the file exists is checked by Sphinx, for either.
"""

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.osutil import relative_uri

FOLDER = "source"
LEXERS = {".metal": "cpp", ".h": "cpp", ".mm": "objective-c++"}  # not what Pygments takes them for
DOWNLOADED = {".json", ".png", ".svg"}


def lexer_of(path: Path) -> str | None:
    """The name of the language that a file is written in, or None where it is to be downloaded."""
    if path.suffix in DOWNLOADED:
        return None
    if path.suffix in LEXERS:
        return LEXERS[path.suffix]
    try:
        return str(get_lexer_for_filename(path.name).aliases[0])
    except ClassNotFound:
        return "text"


class SourceLinks(SphinxTransform):
    """Links to text files lead to their pages, those to a folder to its README if it has one."""

    default_priority = 100  # before Sphinx collects what is to be downloaded

    def apply(self, **_: Any) -> None:
        """Called by Sphinx for each page that it has read."""
        self._files()
        self._folders()

    def _files(self) -> None:
        for node in list(self.document.findall(addnodes.download_reference)):
            relative, absolute = self.env.relfn2path(node["reftarget"], self.env.docname)
            if not Path(absolute).is_file() or lexer_of(Path(absolute)) is None:
                continue
            pages: set[str] = self.env.__dict__.setdefault("source_pages", set())
            pages.add(relative)
            here, there = f"{self.env.docname}.html", f"{FOLDER}/{relative}.html"
            node.replace_self(
                nodes.reference("", "", *node.children, refuri=relative_uri(here, there))
            )

    def _folders(self) -> None:
        for node in list(self.document.findall(addnodes.pending_xref)):
            if node["reftype"] != "myst" or node["refdomain"]:
                continue
            relative, absolute = self.env.relfn2path(node["reftarget"], self.env.docname)
            if Path(absolute, "README.md").is_file():
                node["refdomain"], node["reftarget"] = "doc", f"{relative}/README"
                node["reftargetid"] = None
            elif Path(absolute).is_dir():
                node.replace_self(node.children)


def _pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    for relative in sorted(app.env.__dict__.get("source_pages", ())):
        path = Path(app.srcdir, relative)
        code = app.builder.highlighter.highlight_block(  # type: ignore[attr-defined]
            path.read_text("utf-8"), lexer_of(path), linenos=False
        )
        body = f"<h1><code>{escape(relative)}</code></h1>\n{code}"
        yield f"{FOLDER}/{relative}", {"title": relative, "body": body, "parents": []}, "page.html"


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_transform(SourceLinks)
    app.connect("html-collect-pages", _pages)
    return {"parallel_read_safe": False}  # the set of pages is one
