"""The documentation site: Sphinx reads the Markdown files of the repository as they are.

`make docs` builds it. The root of the sources is the root of the repository, so that a relative
link means here what it means on GitHub. What is added to Sphinx is in tools/docsite.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

project = "mps_ds"
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "docsite.docstrings",
    "docsite.mathml",
    "docsite.navigation",
    "docsite.source_pages",
]

root_doc = "docs/index"
include_patterns = [
    "*.md",
    *(f"{folder}/**.md" for folder in ("docs", "examples", "benchmarks", "third_party")),
]
exclude_patterns = [".*", "build", "dist", "csrc", "python", "tests"]

myst_enable_extensions = ["dollarmath", "html_image"]
myst_heading_anchors = 4  # as GitHub's

default_role = "code"  # single backticks in docstrings
maximum_signature_line_length = 88
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
napoleon_numpy_docstring = False
napoleon_use_rtype = False

# Every reference has to lead somewhere; those to other projects' objects are left as text.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!mps_ds\b).*"), ("py:.*", r"mps_ds\.softmetal\._C\..*")]

if sys.platform == "darwin":  # the stand-ins are not built there, so their docstrings are missing
    suppress_warnings = ["autodoc.import_object"]
    nitpick_ignore_regex += [("py:.*", r"mps_ds\.soft(metal|mps)\b.*")]

html_theme = "furo"
html_math_renderer = "mathml"
html_title = "mps_ds"
html_static_path = ["_static"]
html_css_files = ["mps_ds.css"]
html_additional_pages = {"index": "redirect.html"}  # the start page is in a folder
templates_path = ["_templates"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False

linkcheck_ignore = [r"(\.\./)*source/"]  # pages of this site that are made last
