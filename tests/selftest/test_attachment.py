"""`--report FILE`: everything that an issue needs, and nothing about who wrote it."""

import getpass
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mps_ds.selftest import attachment
from mps_ds.selftest.anonymous import Anonymizer
from mps_ds.selftest.report import FAILED, PASSED, Figure, Report, Result

JANE = Anonymizer(
    places={"/Users/jane doe": "~", "/Users/jane doe/work": "<here>", "/opt/venv": "<python>"},
    names={"jane": "<user>", "Doe": "<user>", "janes-mac": "<host>", "root": "<user>", "jo": "!"},
)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("no names, 3/4 of it", "no names, 3/4 of it"),
        ("in /Users/jane doe/work/train.py", "in <here>/train.py"),
        ("in /Users/jane doe/other", "in ~/other"),
        ("by Jane", "by <user>"),
        ("by JANE, jane@janes-mac.local", "by <user>, <user>@<host>.local"),
        ("a janet, a doer", "a janet, a doer"),
        ("square root, joy", "square root, joy"),
        ("/srv/people/kim/model.py:3", "<path>/model.py:3"),
        ('File "/srv/kim/venv/lib/python3.12/site-packages/torch/nn.py"', "site-packages/torch"),
        ("/srv/kim/lib/python3.12/json/decoder.py", "<path>/python3.12/json/decoder.py"),
        ("file:///srv/kim/x.json", "<path>/x.json"),
        ("(/srv/kim/a.py)", "(<path>/a.py)"),
        ("PATHS=/srv/kim/a:/srv/kim/b", "PATHS=<path>/a:<path>/b"),
    ],
)
def test_texts(text, cleaned):
    result = JANE.text(text)
    assert cleaned in result
    assert not any(name in result for name in ("kim", "Users", "/srv"))


def test_values_of_every_kind():
    value = {"/Users/jane doe/k": ["jane", 1, 2.5, None, True, Path("/srv/kim/x")], "n": {"a": ()}}
    assert JANE.value(value) == {
        "~/k": ["<user>", 1, 2.5, None, True, "<path>/x"],
        "n": {"a": []},
    }


def test_variables_that_matter_and_no_secrets():
    variables = {
        "MPS_DS_SOFT": "1",
        "PYTORCH_ENABLE_MPS_FALLBACK": "1",
        "MTL_DEBUG_LAYER": "1",
        "PYTORCH_API_TOKEN": "secret",
        "HOME": "/Users/jane",
        "AWS_KEY": "secret",
    }
    assert attachment.environment(variables) == {
        "MPS_DS_SOFT": "1",
        "MTL_DEBUG_LAYER": "1",
        "PYTORCH_ENABLE_MPS_FALLBACK": "1",
    }


def test_the_file_holds_all_results():
    report = Report(
        device={"name": "Apple M2", "torch": "2.13.0"},
        findings=[{"problem": "set in /Users/jane doe/.zshrc"}],
        results=[
            Result("a", "first", PASSED, figures=[Figure("error", 1.0, "<=", 2.0, "ulp")]),
            Result("b", "second", FAILED, error="RuntimeError: /srv/kim/x.py by jane"),
        ],
    )
    content = attachment.content(report, JANE)
    assert content["device"]["name"] == "Apple M2"
    assert content["versions"]["torch"]
    assert content["python"]["version"]
    assert content["findings"] == [{"problem": "set in ~/.zshrc"}]
    assert [check["status"] for check in content["checks"]] == [PASSED, FAILED]
    assert content["checks"][0]["figures"][0]["value"] == 1.0
    assert content["checks"][1]["error"] == "RuntimeError: <path>/x.py by <user>"


def test_the_command_writes_it_also_where_nothing_works(tmp_path):
    """In a process in which torch cannot be imported: the report says so, and names nobody."""
    file = tmp_path / "report.json"
    code = (
        "import sys\n"
        "sys.modules['torch'] = sys.modules['numpy'] = None\n"
        "from mps_ds.selftest.__main__ import main\n"
        f"sys.exit(main(['--report', {str(file)!r}]))\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "MPS_DS_SOFT"}
    environment.update(MPS_DS_NOTE=str(tmp_path / "note"), USER="janejanejane")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert f"{file} can be attached to an issue" in done.stdout, done.stderr
    text = file.read_text(encoding="utf-8")
    report = json.loads(text)
    assert (report["usable"], report["passed"]) == (False, False)
    assert "torch-missing" in {finding["name"] for finding in report["findings"]}
    assert report["environment"]["MPS_DS_NOTE"].endswith("note")
    personal = [str(Path.home()), str(tmp_path), sys.prefix, socket.gethostname(), "janejanejane"]
    if getpass.getuser() != "root":
        personal.append(getpass.getuser())
    assert [name for name in personal if len(name) > 2 and name in text] == []
