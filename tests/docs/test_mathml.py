"""Formulas mean in the site what they mean in LaTeX."""

import re

import pytest

pytest.importorskip("sphinx")

from docsite.mathml import mathml


def words(formula: str, as_block: bool = False) -> str:
    """The MathML of a formula without attributes and line breaks."""
    return re.sub(r"\s+|(?<=<\w)\s[^>]*", "", mathml(formula, as_block=as_block))


@pytest.mark.parametrize("formula", [r"\frac12", r"\tfrac12", r"\tfrac{1}{2}", r"\dfrac12 x"])
def test_a_fraction_of_two_digits_is_no_number(formula):
    assert "<mn>1</mn><mn>2</mn></mfrac>" in words(formula)


def test_several_lines_are_lines_of_a_table():
    assert words(r"a &= b \\ c &= d", as_block=True).count("<mtr>") == 2


def test_what_is_no_latex_is_an_error():
    with pytest.raises(Exception, match="unknown"):
        mathml(r"\unknown", as_block=False)
