"""The judge of other projects' tests: what counts as a failure of the run, and what is counted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from upstream.judge import Outcome, Suite, Tally, Target, judge, read

TESTS = """
import pytest

def test_passes():
    pass

class TestInAClass:
    @pytest.mark.parametrize("case", ["one", "two"])
    def test_of_cases(self, case):
        assert case == "one", "case is two"

@pytest.mark.skip(reason="wants a GPU")
def test_skipped():
    pass

@pytest.fixture
def broken():
    raise OSError("no such thing")

def test_error(broken):
    pass
"""
ALL_KNOWN = {"test_of_cases[two]": "theirs", "test_error": "theirs, too"}


def run(tmp_path: Path, known: dict[str, str], *paths: str) -> int:
    (tmp_path / "test_some.py").write_text(TESTS)
    suite = Suite(tmp_path, os.environ, tmp_path / "logs", known=known)
    return judge(suite, [Target("some", paths or ("test_some.py",))])


def row(out: str, name: str) -> list[str]:
    (found,) = (line for line in out.splitlines() if line.startswith(name + " "))
    return found.split()[1:]


def test_failures_that_are_known_are_counted_apart(tmp_path, capsys) -> None:
    assert run(tmp_path, ALL_KNOWN) == 0
    out = capsys.readouterr().out
    assert row(out, "test_some.py") == row(out, "all") == ["2", "2", "0", "0", "1"]
    assert "skipped 1: wants a GPU" in out
    assert "known 1: theirs, too" in out


def test_other_failures_and_errors_fail_the_run(tmp_path, capsys) -> None:
    assert run(tmp_path, {}) == 1
    out = capsys.readouterr().out
    assert row(out, "all") == ["2", "0", "1", "1", "1"]
    assert "test_some.TestInAClass::test_of_cases[two]: AssertionError: case is two" in out


def test_a_known_failure_that_passes_is_told(tmp_path, capsys) -> None:
    assert run(tmp_path, {**ALL_KNOWN, "test_passes": "was broken"}) == 1
    assert "passes, but is named as failing: was broken" in capsys.readouterr().out


def test_a_run_without_tests_is_no_success(tmp_path, capsys) -> None:
    (tmp_path / "test_empty.py").write_text("")
    for path in ("test_empty.py", "nowhere.py"):
        assert run(tmp_path, {}, path) == 1
        assert "no test ran at all" in capsys.readouterr().out


def test_a_pytest_that_dies_is_no_success(tmp_path, capsys) -> None:
    (tmp_path / "test_dies.py").write_text("import os\ndef test(): os._exit(0)")
    assert run(tmp_path, {}, "test_dies.py") == 1
    assert "some: no test ran, see " in capsys.readouterr().out


@pytest.mark.parametrize(
    "name",
    [
        "test_of_cases[two]",
        "test_some.TestInAClass::test_of_cases[two]",
        *("of_cases[two]", "test_of", "test_of_cases[three]"),
    ],
)
def test_names_are_compared_whole(name) -> None:
    test = "test_some.TestInAClass::test_of_cases[two]"
    count = Tally().add([Outcome(test, "failed", "case is two")], {name: "theirs"})
    assert count == {"known" if "test_of_cases[two]" in name else "failed": 1}


def test_a_name_without_parameters_is_that_of_all_cases() -> None:
    cases = [Outcome(f"test_some::test_of_cases[{case}]", "failed", "") for case in "ab"]
    assert Tally().add(cases, {"test_of_cases": "theirs"}) == {"known": 2}


def test_a_name_may_have_its_class() -> None:
    outcomes = [Outcome(f"unit.test_some.{name}::test[a]", "failed", "") for name in ("A", "B")]
    assert Tally().add(outcomes, {"A::test[a]": "theirs"}) == {"known": 1, "failed": 1}


def test_a_test_that_was_interrupted_does_not_count(tmp_path) -> None:
    report = tmp_path / "report.xml"
    report.write_text('<testsuite><testcase/><testcase classname="a" name="b"/></testsuite>')
    assert read(report) == [Outcome("a::b", "passed", "")]
