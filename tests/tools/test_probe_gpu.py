"""The probe says yes only if every question is answered with yes, and survives every kind of no."""

import json
import os
import subprocess
import sys
from pathlib import Path

import probe_gpu
import pytest
import torch
from probe_gpu import Question

HAS_MPS = torch.backends.mps.is_available()

YES = Question("a question", "print('noise'); print('some GPU')")
NO = {
    "an exception": (Question("q", "raise RuntimeError('no device')"), "no device"),
    "an assertion": (Question("q", "assert False, 'tier 1'"), "tier 1"),
    "a crash": (Question("q", "import os; os.abort()"), "ended by signal 6"),
    "an exit": (Question("q", "raise SystemExit(7)"), "status 7"),
}


def test_yes_with_its_detail():
    assert probe_gpu.ask(YES) == ("a question", True, "some GPU")


@pytest.mark.parametrize("what", NO)
def test_no_with_its_reason(what):
    question, detail = NO[what]
    answer = probe_gpu.ask(question)
    assert not answer.yes
    assert detail in answer.detail


def test_a_hang_is_a_no():
    answer = probe_gpu.ask(Question("q", "import time; time.sleep(600)"), time_limit=1)
    assert answer == ("q", False, "no answer in 1 s")


def test_nothing_is_asked_after_a_no(tmp_path):
    touched = tmp_path / "touched"
    after = Question("after", f"open({str(touched)!r}, 'w')")
    answers = probe_gpu.ask_all([YES, NO["a crash"][0], after])
    assert [a.yes for a in answers] == [True, False]
    assert not touched.exists()
    assert probe_gpu.reason(answers, 3) == "q: no (ended by signal 6)"


def test_questions_that_were_not_asked_are_no_yes():
    answers = probe_gpu.ask_all([YES])
    assert probe_gpu.reason(answers, 1) == ""
    assert probe_gpu.reason(answers, 2) == "not all questions were asked"
    assert probe_gpu.reason([], 0) == "not all questions were asked"


@pytest.fixture
def github(monkeypatch, tmp_path):
    """Runs the command as a workflow does: (status, outputs, summary, JSON)."""

    def run(*questions):
        files = {name: tmp_path / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        for name, path in files.items():
            monkeypatch.setenv(name, str(path))
        monkeypatch.setattr(probe_gpu, "QUESTIONS", questions)
        status = probe_gpu.main(["--json", str(tmp_path / "probe.json")])
        outputs = dict(
            line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines()
        )
        report = json.loads((tmp_path / "probe.json").read_text())
        return status, outputs, files["GITHUB_STEP_SUMMARY"].read_text(), report

    return run


def test_a_workflow_is_told_yes(github):
    status, outputs, summary, report = github(YES, YES)
    assert status == 0
    assert outputs == {"gpu": "true", "reason": ""}
    assert "NOT RUN" not in summary
    assert report["gpu"] is True


def test_a_workflow_is_told_no_and_why(github, capsys):
    status, outputs, summary, report = github(YES, NO["an assertion"][0])
    assert status == 3
    assert outputs["gpu"] == "false"
    assert outputs["reason"] == "q: no (AssertionError: tier 1)"
    assert "**GPU tests: NOT RUN** - q: no (AssertionError: tier 1)" in summary
    assert (report["gpu"], [a["yes"] for a in report["answers"]]) == (False, [True, False])
    assert "GPU tests cannot run here" in capsys.readouterr().out


def run_probe(**environment):
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("MPS_DS", "GITHUB"))}
    inherited["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    return subprocess.run(
        [sys.executable, Path(probe_gpu.__file__)],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
    )


@pytest.mark.skipif(sys.platform == "darwin" or not HAS_MPS, reason="needs the software device")
def test_the_software_device_answers_yes_by_its_name():
    done = run_probe(MPS_DS_SOFT="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "argument buffers of tier 2: yes (softmetal (software Metal device" in done.stdout
    assert "an MPS allocation: yes" in done.stdout
    assert "a kernel that follows pointers in a table: yes" in done.stdout


@pytest.mark.skipif(sys.platform == "darwin" or not HAS_MPS, reason="needs the software device")
def test_a_gpu_without_argument_buffers_of_tier_2_is_refused():
    facts = "{'name': 'Paravirtual', 'metal3': %s, 'argument_buffers_tier': %s}"
    patched = "import mps_ds\nmps_ds.device_info = lambda: " + facts
    real = probe_gpu.QUESTIONS[0]
    for metal3, tier, wanted in [
        (False, 2, "Paravirtual is not of the family Metal 3"),
        (True, 1, "Paravirtual has argument buffers of tier 1"),
    ]:
        question = Question(real.name, patched % (metal3, tier) + real.program)
        answer = probe_gpu.ask(question)
        assert not answer.yes
        assert wanted in answer.detail


@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac has a device of its own")
def test_a_machine_without_a_device_is_told_so():
    done = run_probe()
    assert done.returncode == 3
    assert "an MPS allocation: NO" in done.stdout
