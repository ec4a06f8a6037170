"""The software Metal device under AddressSanitizer, UBSan, LeakSanitizer and ThreadSanitizer."""

import pytest

CASES = (
    "a_kernel_that_never_ends",
    "a_queue_for_each_thread",
    "arithmetic",
    "barriers_and_lanes",
    "bindless_tables",
    "counters_and_settings",
    "dispatch_queues",
    "faults_in_fibers",
    "faults_in_loops",
    "function_constants",
    "handlers",
    "memory_is_given_back",
    "misuse_is_refused",
    "owners_let_go",
    "processes_share_a_cache",
    "source_that_does_not_compile",
    "threads_share_a_queue",
    "tracing",
)


def test_every_case_of_the_program_is_here(address):
    assert tuple(address().stdout.split()) == CASES


@pytest.mark.parametrize("case", CASES)
def test_addresses_and_undefined_behaviour(address, case):
    """Neither sanitizer reports anything, and nothing is leaked."""
    done = address(case, leaks=True)
    assert done.returncode == 0, done.stdout + done.stderr[-6000:]
    assert done.stdout.splitlines()[-1] == f"{case}: ok"


@pytest.mark.parametrize("case", CASES)
def test_threads(threads, case):
    """ThreadSanitizer reports nothing."""
    done = threads(case)
    assert done.returncode == 0, done.stdout + done.stderr[-6000:]
    assert done.stdout.splitlines()[-1] == f"{case}: ok"


@pytest.mark.parametrize(
    ("bug", "report"),
    [
        ("heap_overflow", "AddressSanitizer: heap-buffer-overflow"),
        ("use_after_free", "AddressSanitizer: heap-use-after-free"),
        ("overflow_in_a_handler", "AddressSanitizer: heap-buffer-overflow"),
        ("signed_overflow", "runtime error: signed integer overflow"),
        ("leak", "LeakSanitizer: detected memory leaks"),
        ("leaked_buffer", "LeakSanitizer: detected memory leaks"),
    ],
)
def test_planted_bugs_are_reported(address, bug, report):
    """Otherwise silence would mean nothing."""
    done = address(f"planted_{bug}", leaks=True)
    assert done.returncode != 0
    assert report in done.stderr, done.stderr[-4000:]


@pytest.mark.parametrize("bug", ["race", "race_with_a_handler"])
def test_planted_races_are_reported(threads, bug):
    done = threads(f"planted_{bug}")
    assert done.returncode != 0
    assert "ThreadSanitizer: data race" in done.stderr, done.stderr[-4000:]
