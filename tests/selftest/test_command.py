"""`python -m mps_ds.selftest`: what it prints, the JSON file, and the exit status."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mps_ds.selftest import __main__ as command
from mps_ds.selftest import checks, diagnosis
from mps_ds.selftest.checks import Check
from mps_ds.selftest.machine import Machine
from mps_ds.selftest.report import Figure

WORKS = Machine(system="Linux", arch="x86_64", torch="2.13.0", software=True)
KEPT = Figure("error", 1.5, "<=", 2.0, "ulp")
BROKEN = Figure("error", 2.5, "<=", 2.0, "ulp")


def raises() -> list[Figure]:
    raise RuntimeError("encoder left open")


def run(
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    *cases: Check,
    findings: tuple[diagnosis.Finding, ...] = (),
) -> int:
    """The command on a machine that works, with checks and findings of our own."""
    monkeypatch.setattr(command, "gather", lambda: WORKS)
    monkeypatch.setattr(diagnosis, "diagnose", lambda machine: list(findings))
    monkeypatch.setattr(checks, "CHECKS", cases)
    monkeypatch.setattr(command, "ask_device", lambda: {"name": "Some GPU", "software": True})
    return command.main(arguments)


def check(name: str, *figures: Figure, long: bool = False) -> Check:
    return Check(name, f"the {name} check", lambda: list(figures), long)


def test_all_passed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, [], check("first", KEPT), check("second", KEPT)) == command.EXIT_PASSED
    out = capsys.readouterr().out
    assert "[pass] the first check" in out
    assert "error: 1.5 ulp  (bound: <= 2)" in out
    assert "2 passed, 0 failed, 0 skipped" in out


@pytest.mark.parametrize(
    "broken",
    [check("one", BROKEN), check("one", KEPT, BROKEN), check("one"), Check("one", "one", raises)],
    ids=["a figure past its bound", "one of two", "a check without figures", "an exception"],
)
def test_one_failure_fails_the_run_and_the_rest_still_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], broken: Check
) -> None:
    assert run(monkeypatch, [], broken, check("after", KEPT)) == command.EXIT_FAILED
    assert "[pass] the after check" in capsys.readouterr().out


def test_an_exception_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, [], Check("one", "one", raises))
    assert "RuntimeError: encoder left open" in capsys.readouterr().out


def test_a_long_error_is_cut_on_the_screen_and_whole_in_the_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def pages() -> list[Figure]:
        raise RuntimeError("\n".join(f"line {i}" for i in range(500)))

    file = tmp_path / "report.json"
    run(monkeypatch, ["--json", str(file)], Check("one", "one", pages))
    out = capsys.readouterr().out
    assert "line 5\n" in out
    assert "line 499" not in out
    assert "more lines" in out
    assert "line 499" in read(file)["checks"][0]["error"]


def test_quick_leaves_out_what_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = [check("short", KEPT), check("long", BROKEN, long=True)]
    assert run(monkeypatch, ["--quick"], *cases) == command.EXIT_PASSED
    assert "1 passed, 0 failed, 1 skipped" in capsys.readouterr().out


def test_nothing_run_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, ["--quick"], check("long", KEPT, long=True)) == command.EXIT_FAILED


def test_a_machine_that_cannot_work_runs_no_check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old = diagnosis.Finding("macos-too-old", "this is macOS 13.", "Update macOS.")
    status = run(monkeypatch, [], check("first", KEPT), findings=(old,))
    out = capsys.readouterr().out
    assert status == command.EXIT_CANNOT_WORK
    assert "PROBLEM: this is macOS 13.\n    Update macOS." in out
    assert "the first check" not in out


def test_a_note_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    note = diagnosis.Finding("mps-fallback", "the fallback is on.", "unset it", fatal=False)
    assert run(monkeypatch, [], check("first", KEPT), findings=(note,)) == command.EXIT_PASSED
    assert "note: the fallback is on." in capsys.readouterr().out


def test_the_software_device_is_named_as_such(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, [], check("first", KEPT))
    out = capsys.readouterr().out
    assert "Some GPU" in out
    assert "SOFTWARE device" in out
    assert "say nothing about any Mac" in out


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def test_json_holds_every_figure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    run(
        monkeypatch,
        ["--json", str(file)],
        check("first", KEPT, BROKEN),
        Check("two", "two", raises),
    )
    report = read(file)
    first, second = report["checks"]
    assert report["passed"] is False
    assert report["usable"] is True
    assert report["device"]["name"] == "Some GPU"
    assert report["device"]["torch"] == "2.13.0"
    assert [figure["passed"] for figure in first["figures"]] == [True, False]
    assert first["figures"][0] == {
        "what": "error",
        "value": 1.5,
        "relation": "<=",
        "bound": 2.0,
        "unit": "ulp",
        "passed": True,
    }
    assert "encoder left open" in second["error"]


def test_json_holds_the_findings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    old = diagnosis.Finding("macos-too-old", "this is macOS 13.", "Update macOS.")
    run(monkeypatch, ["--json", str(file)], check("first", KEPT), findings=(old,))
    report = read(file)
    assert (report["passed"], report["usable"], report["checks"]) == (False, False, [])
    assert report["findings"] == [{**vars(old)}]


@pytest.mark.parametrize("option", ["--json", "--report"])
@pytest.mark.parametrize(
    ("name", "why"),
    [("absent/out.json", "No such file"), ("file/out.json", "Not a directory"), ("", "directory")],
)
def test_a_file_that_cannot_be_written_is_refused_before_the_checks(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    option: str,
    name: str,
    why: str,
) -> None:
    (tmp_path / "file").touch()
    assert run(monkeypatch, [option, str(tmp_path / name)], check("first", KEPT)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith(f"{option}: cannot write {tmp_path / name}")
    assert why in line
    assert "folder that exists" in line


def test_asking_whether_a_file_can_be_written_changes_nothing(tmp_path: Path) -> None:
    new, old = tmp_path / "new.json", tmp_path / "old.json"
    old.write_text("kept")
    assert command.why_not_writable(new) is None
    assert command.why_not_writable(old) is None
    assert (new.exists(), old.read_text()) == (False, "kept")


def test_nan_keeps_no_bound() -> None:
    nan = float("nan")
    assert not any(Figure("x", nan, relation, 2.0).passed for relation in ("<=", "<", ">=", "=="))


def test_device_facts_leave_out_what_is_unknown() -> None:
    facts = command.describe(replace(WORKS, chip=None, macos=None))
    assert "chip" not in facts
    assert facts["system"] == "Linux x86_64"


def test_without_torch_it_says_so_instead_of_failing(tmp_path: Path) -> None:
    """In a process of its own, in which torch and numpy cannot be imported."""
    code = (
        "import sys\n"
        "sys.modules['torch'] = sys.modules['numpy'] = None\n"
        "from mps_ds.selftest.__main__ import main\n"
        f"sys.exit(main(['--json', {str(tmp_path / 'report.json')!r}]))\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "MPS_DS_SOFT"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert done.returncode == command.EXIT_CANNOT_WORK, done.stderr
    assert "-m pip install torch" in done.stdout
    assert "torch-missing" in {
        finding["name"] for finding in read(tmp_path / "report.json")["findings"]
    }
