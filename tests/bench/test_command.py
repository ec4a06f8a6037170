"""`python -m mps_ds.bench`: what it prints, the files, the exit status."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from mps_ds.bench import __main__ as command
from mps_ds.bench import compare, plot, timing, training
from mps_ds.bench.cases import Contestant
from mps_ds.selftest.machine import Machine, gather

pytestmark = pytest.mark.usefixtures("small_sizes")


@pytest.fixture
def no_mps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which everything works but `mps`."""
    machine = dataclasses.replace(gather(), mps_available=False, software=False)
    monkeypatch.setattr(command, "gather", lambda: machine)
    monkeypatch.setattr(command, "COPY_BYTES", 1 << 16)


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = command.main([str(argument) for argument in arguments])
    return status, *capsys.readouterr()


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def every_key(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(every_key, value.values()))
    return set().union(*map(every_key, value)) if isinstance(value, list) else set()


HEAD = {"format", "measure", "device", "notes", "cases"}
CASE = {"group", "name", "title", "device", "shapes", "tensors", "elements", "rows", "skipped",
        "notes"}  # fmt: skip
ROW = {"name", "ours", "least_bytes"}
TIMES = {"seconds", "host_seconds", "ratio", "bandwidth_share"}
COUNTS = {"dispatches", "operators", "declared", "commits", "waits", "host_reads", "bytes",
          "bytes_per_element"}  # fmt: skip


def test_the_software_device_has_counts_and_no_times(capsys, monkeypatch, tmp_path, software):
    """Not on the screen, not in the file; no clock is even read."""

    def no_clock() -> float:
        raise AssertionError("a clock was read")

    for module in (timing, training):
        fake = type("time", (), {"perf_counter": staticmethod(no_clock)})
        monkeypatch.setattr(module, "time", fake)
    file = tmp_path / "bench.json"
    status, out, _ = run(capsys, "--json", file, "--train", "--only", "adam", "norms", "mixed")
    assert status == command.EXIT_DONE
    assert "SOFTWARE device" in out
    assert "bytes/element" in out
    assert not re.search(r"\b\d+(\.\d+)? ?(ms|us|s|GB/s)\b|host ms|times ours", out)

    content = read(file)
    assert set(content) == {*HEAD, "training"}
    assert content["measure"] == "counts"
    assert {case["group"] for case in content["cases"]} == {"adam", "norms", "mixed"}
    for case in content["cases"]:
        assert set(case) == CASE
        for row in case["rows"]:
            assert set(row) == ROW | COUNTS
    assert set(content["training"]) == {"parameters", "steps"}
    for counts in content["training"]["steps"].values():
        assert set(counts) == COUNTS - {"bytes_per_element"}
    words = ("second", "time", "date", "bandwidth", "ratio", "ms", "speed")
    assert [key for key in every_key(content) if any(w in key.split("_") for w in words)] == []


def test_every_group_counts(capsys, software):
    status, out, _ = run(capsys, "--only", "resources", "cpu")
    assert status == command.EXIT_DONE
    assert "comparisons on the CPU are left out" in out
    assert "Adam, resources declared" in out


def test_nothing_but_the_cpu_beside_the_software_device(capsys, software):
    status, _, err = run(capsys, "--only", "cpu")
    assert status == command.EXIT_USAGE
    assert "Nothing of what was asked for can be measured here" in err


def test_without_mps_the_cpu_part_and_a_word_about_it(capsys, tmp_path, no_mps):
    file = tmp_path / "bench.json"
    status, out, _ = run(capsys, "--quick", "--json", file)
    assert status == command.EXIT_DONE
    assert "There is no mps device here, so this is the CPU part only." in out
    content = read(file)
    assert set(content) == {*HEAD, "copy_bandwidth"}
    assert (content["format"], content["measure"]) == (1, "times")
    assert content["copy_bandwidth"]["cpu"] > 0
    assert content["notes"] == [command.NO_MPS]
    assert {(case["group"], case["device"]) for case in content["cases"]} == {("cpu", "cpu")}
    names = [row["name"] for row in content["cases"][0]["rows"]]
    assert names == ["mps_ds CPUAdam", "mps_ds cpu_adam_", "torch AdamW, fused",
                     "torch AdamW, foreach", "torch AdamW, for-loop"]  # fmt: skip
    for case in content["cases"]:
        assert set(case) == CASE
        for row in case["rows"]:
            assert set(row) == ROW | TIMES
        assert case["rows"][0]["ratio"] == 1.0


def test_training_alone(capsys, tmp_path, no_mps):
    file = tmp_path / "bench.json"
    status, out, _ = run(capsys, "--quick", "--train", "--json", file)
    assert status == command.EXIT_DONE
    assert "The optimizer is" in out
    content = read(file)
    assert content["cases"] == []
    assert content["training"]["verdict"] in out


def test_something_of_ours_that_fails_is_the_exit_status(capsys, monkeypatch, tmp_path, no_mps):
    def fails() -> None:
        raise RuntimeError("wrong")

    def make(*_: object) -> dict[str, Contestant]:
        return {"ours": Contestant(fails, 1, True), "theirs": Contestant(lambda: None, 1)}

    cases = compare.cases

    def broken(*arguments: Any) -> list[Any]:
        return [dataclasses.replace(case, make=make) for case in cases(*arguments)]

    monkeypatch.setattr(compare, "cases", broken)
    file = tmp_path / "bench.json"
    status, out, _ = run(capsys, "--quick", "--json", file)
    assert status == command.EXIT_FAILED
    assert "RuntimeError: wrong" in out
    assert read(file)["cases"][0]["rows"][0]["error"] == "RuntimeError: wrong"


def test_what_is_left_out_is_told(capsys, monkeypatch, tmp_path, no_mps):
    from mps_ds.bench import target

    monkeypatch.setattr(target, "cpu", lambda: target.Target("cpu", 4096))
    file = tmp_path / "bench.json"
    status, out, _ = run(capsys, "--quick", "--json", file)
    assert status == command.EXIT_DONE
    assert "left out: it needs" in out
    assert all(case["skipped"] and not case["rows"] for case in read(file)["cases"])


def test_without_matplotlib_it_says_so_before_it_measures(capsys, monkeypatch, tmp_path, no_mps):
    monkeypatch.setattr(plot, "available", lambda: False)
    status, out, err = run(capsys, "--png", tmp_path / "bench.png")
    assert (status, out) == (command.EXIT_USAGE, "")
    assert "python -m pip install matplotlib" in err
    assert not (tmp_path / "bench.png").exists()


def test_a_picture(capsys, tmp_path, no_mps):
    pytest.importorskip("matplotlib")
    file = tmp_path / "bench.png"
    assert run(capsys, "--quick", "--png", file)[0] == command.EXIT_DONE
    assert file.read_bytes().startswith(b"\x89PNG")


def test_a_picture_of_training_and_of_counts(capsys, tmp_path, software):
    pytest.importorskip("matplotlib")
    file = tmp_path / "bench.png"
    assert run(capsys, "--train", "--only", "resources", "--png", file)[0] == command.EXIT_DONE
    assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("option", ["--json", "--png"])
def test_a_file_that_cannot_be_written_is_refused_first(capsys, tmp_path, no_mps, option):
    status, out, err = run(capsys, option, tmp_path / "absent" / "file")
    assert (status, out) == (command.EXIT_USAGE, "")
    assert err.startswith(f"{option}: cannot write")


def test_an_unknown_group_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        command.main(["--only", "everything"])
    assert "adam" in capsys.readouterr().err


def test_where_nothing_works_it_says_what_to_do(capsys, monkeypatch):
    monkeypatch.setattr(command, "gather", lambda: Machine(macos="15.1", executable="python"))
    status, out, _ = run(capsys)
    assert status == command.EXIT_CANNOT_WORK
    assert "-m pip install torch" in out


def test_the_groups_of_the_command_are_those_that_exist():
    assert command.GROUPS == compare.GROUPS
