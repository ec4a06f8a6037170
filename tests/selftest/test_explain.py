"""`python -m mps_ds.selftest --explain MESSAGE`."""

from __future__ import annotations

import pytest

from mps_ds.selftest import __main__ as command
from mps_ds.selftest.explain import MESSAGES, explain


def test_what_is_known_of_a_message_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    raised = "MisconfigurationException: You requested gpu: [0, 1]\n But your machine only has: [0]"
    assert command.main(["--explain", raised]) == command.EXIT_PASSED
    out = capsys.readouterr().out
    assert "cause:  a Mac has one MPS device" in out
    assert "remedy: `devices=1`" in out


def test_a_message_that_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--explain", "IndexError: pop from empty list"]) == command.EXIT_FAILED
    assert "No message like this is known" in capsys.readouterr().out


@pytest.mark.parametrize("row", MESSAGES, ids=lambda row: row.words)
def test_no_row_hides_another(row) -> None:
    """Nor does it match without its words, or where they come in another order."""
    assert explain(f"Error: {row.words.replace('...', 'of any kind')}\n  at line 3") == [row]
    assert explain(row.words.upper()) == [row]
    assert explain(" ".join(reversed(row.words.split()))) == []


def test_some_words_of_a_message_are_enough():
    assert [row.words for row in explain("not linked with\n Support")] == [
        "PyTorch is not linked with support for mps devices"
    ]


@pytest.mark.parametrize("text", ["", " ", "mps"])
def test_less_than_two_words_are_not(text):
    assert explain(text) == []
