"""What Objective-C++ host code relies on: exceptions of both languages, blocks, dispatch queues."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mps_ds import softmetal as metal

host_code = metal.host_code


def test_an_NSException_is_caught_by_catch_and_leaves_as_cxx() -> None:
    assert host_code.nested_handlers(False) == [
        "destructor",
        "@catch NSRangeException",
        "@finally",
        "destructor",
        "catch rethrown as C++",
    ]


def test_a_cxx_exception_passes_catch_and_runs_finally() -> None:
    assert host_code.nested_handlers(True) == [
        "destructor",
        "@finally",
        "destructor",
        "catch thrown in C++",
    ]


@pytest.mark.parametrize(
    ("thrown", "caught"),
    [
        ("int", "int 3"),
        ("pointer", "pointer text"),
        ("derived", "logic_error derived"),
        ("rethrown", "logic_error rethrown"),
        ("something else", "other"),
    ],
)
def test_cxx_handlers_match_by_type(thrown: str, caught: str) -> None:
    assert host_code.cxx_handlers(thrown) == caught


def test_an_NSException_passes_cxx_handlers() -> None:
    assert host_code.past_cxx_handlers() == ["destructor", "@catch id NSRangeException"]


def test_cxx_exceptions_leave_loops_over_collections() -> None:
    assert host_code.through_a_method() == "a"


def test_an_NSException_that_nobody_catches_becomes_a_python_error() -> None:
    with pytest.raises(RuntimeError, match="NSRangeException"):
        host_code.throw_ns()


def test_blocks_are_objects() -> None:
    assert host_code.blocks_as_objects() == 2 * 5


def test_dispatch_queues_are_serial_and_in_order() -> None:
    for _ in range(20):
        assert host_code.queue_order() == list(range(9))


def test_dispatch_sync_onto_the_own_queue() -> None:
    with pytest.raises(
        metal.ValidationError, match=r"dispatch_sync onto dispatch queue 'nested'.*deadlock"
    ):
        host_code.nested_sync()


def test_a_handler_can_signal_a_semaphore() -> None:
    assert host_code.wait_with_semaphore()


def test_available_takes_the_newest_branch() -> None:
    assert host_code.macos_15_is_available()


def _run(call: str) -> subprocess.CompletedProcess[str]:
    code = f"from mps_ds.softmetal import host_code; {call}; print('survived')"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("cxx", [True, False])
def test_an_exception_that_leaves_a_dispatch_sync_block_ends_the_process(cxx: bool) -> None:
    result = _run(f"host_code.leave_block({cxx})")
    assert result.returncode < 0
    assert "survived" not in result.stdout
    assert "left a block on dispatch queue 'gpu stream'" in result.stderr
    assert ("thrown in C++" in result.stderr) == cxx


def test_noexcept_is_respected() -> None:
    result = _run("host_code.must_not_throw()")
    assert result.returncode < 0
    assert "terminate called" in result.stderr
