"""The site's navigation: which page stands where.

It is here and not in the start page, so that GitHub does not show directives of Sphinx there. A
page that is in no section is an error of the build; one that does not exist is passed over.
"""

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

SECTIONS = {
    "User guide": [
        "docs/adam",
        "docs/norms",
        "docs/cpu_adam",
        "docs/unified_memory",
        "docs/bench",
        "examples/README",
        "docs/troubleshooting",
        "docs/limits",
        "README",
    ],
    "Integrations": [
        "docs/lightning",
        "docs/huggingface",
        "docs/deepspeed",
    ],
    "How it works": [
        "docs/how_it_works",
        "docs/numerics",
        "docs/decisions",
        "benchmarks/gpu/NOTES",
    ],
    "Without a Mac": [
        "docs/softmps",
        "docs/softmetal",
        "docs/real_kernels",
    ],
    "Contributors": [
        "CONTRIBUTING",
        "docs/development",
        "docs/add_a_kernel",
        "docs/sanitizers",
        "third_party/softmetal/README",
        "third_party/softmetal/msl/README",
        "third_party/softmps/README",
        "third_party/macos/README",
    ],
    "Reference": [
        "docs/reference/ops",
        "docs/reference/optim",
        "docs/reference/unified",
        "docs/reference/distributed",
        "docs/reference/lightning",
        "docs/reference/huggingface",
        "docs/reference/deepspeed",
        "docs/reference/bench",
        "docs/reference/softmps",
        "docs/reference/softmetal",
    ],
}

# Where a page's own title does not tell it from others.
TITLES = {
    "README": "README: figures, what ran where",
    "third_party/softmetal/README": "Sources of softmetal",
    "third_party/softmetal/msl/README": "Sources of its shading language",
    "third_party/softmps/README": "Sources of softmps",
}


def _entry(page: str) -> str:
    return f"{TITLES[page]} </{page}>" if page in TITLES else f"/{page}"


def toctree(caption: str, pages: list[str]) -> str:
    """The directive of one section."""
    return "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```"])


def _append(app: Sphinx, docname: str, content: list[str]) -> None:
    if docname != app.config.root_doc:
        return
    for caption, pages in SECTIONS.items():
        there = [_entry(page) for page in pages if Path(app.srcdir, f"{page}.md").exists()]
        if there:
            content[0] += f"\n\n{toctree(caption, there)}\n"


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("source-read", _append)
    return {"parallel_read_safe": True}
