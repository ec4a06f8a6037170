"""Formulas as MathML, which browsers draw themselves: the site loads no script from elsewhere."""

import re
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def mathml(text: str, *, as_block: bool) -> str:
    """MathML of what stands between dollars."""
    text = re.sub(r"(\\[dt]?frac)(\d)(\d)", r"\1{\2}{\3}", text)  # docutils takes 12 for one number
    if r"\\" in text:  # several lines
        text = rf"\begin{{aligned}}{text}\end{{aligned}}"
    return str(tex2mathml(text, as_block=as_block))


def _inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def _block(translator: HTML5Translator, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True}
