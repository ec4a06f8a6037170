"""Says whether this machine's GPU can run the GPU tests: `python tools/probe_gpu.py [--json FILE]`.

Hosted Macs have a paravirtual GPU without Metal 3, on which MPS works badly or not at all: tests
on it fail, hang or crash for reasons that are not ours. So questions are asked first, each in a
process of its own with a time limit. GPU tests run only if all are answered with yes; otherwise
they are reported as not run, never as passed.

Exit status: 0 GPU tests can run, 3 they cannot, whatever the reason. In a GitHub workflow the
outputs `gpu` (true, false) and `reason` are set and the summary of the job says so.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

EXIT_CAN_RUN, EXIT_CANNOT_RUN = 0, 3
TIME_LIMIT = 180
"""Seconds for one question; the first one pays for importing torch from a cold disk."""


class Question(NamedTuple):
    """A program that prints its answer and raises where the answer is no."""

    name: str
    program: str


class Answer(NamedTuple):
    """What came of a question."""

    name: str
    yes: bool
    detail: str


QUESTIONS = (
    Question(
        "argument buffers of tier 2",
        """
import mps_ds
device = mps_ds.device_info()
assert device["metal3"], f"{device['name']} is not of the family Metal 3"
tier = device["argument_buffers_tier"]
assert tier >= 2, f"{device['name']} has argument buffers of tier {tier}"
print(device["name"])
""",
    ),
    Question(
        "an MPS allocation",
        """
import mps_ds, torch
x = torch.full((1 << 20,), 0.5, device="mps")
total = (x + 0.5).sum().item()
assert total == 1 << 20, f"2^20 ones add up to {total}"
print("2^20 ones add up")
""",
    ),
    Question(
        "a kernel that follows pointers in a table",
        """
import mps_ds, torch
from mps_ds.ops import adam_
def step(device):
    generator = torch.Generator().manual_seed(0)
    lists = [[torch.rand(n, generator=generator).to(device) for n in (1, 1000, 20000)]
             for _ in range(4)]
    adam_(*lists, 1, lr=1e-3)
    return [tensor.cpu() for tensors in lists for tensor in tensors]
for on_gpu, on_cpu in zip(step("mps"), step("cpu")):
    torch.testing.assert_close(on_gpu, on_cpu, rtol=1e-6, atol=1e-30)
print("Adam over 3 tensors in one dispatch agrees with the CPU")
""",
    ),
)


def ask(question: Question, time_limit: float = TIME_LIMIT) -> Answer:
    """Run the question's program; a crash or a hang is a no."""
    command = [sys.executable, "-c", question.program]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=time_limit
        )
    except subprocess.TimeoutExpired:
        return Answer(question.name, False, f"no answer in {time_limit:g} s")
    if done.returncode == 0:
        return Answer(question.name, True, _last_line(done.stdout))
    if done.returncode < 0:
        return Answer(question.name, False, f"ended by signal {-done.returncode}")
    return Answer(question.name, False, _last_line(done.stderr) or f"status {done.returncode}")


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def ask_all(questions: Iterable[Question] = QUESTIONS) -> list[Answer]:
    """Answers up to the first no: what comes after it relies on what it asked for."""
    answers: list[Answer] = []
    for question in questions:
        answers.append(ask(question))
        if not answers[-1].yes:
            break
    return answers


def reason(answers: Sequence[Answer], asked: int) -> str:
    """Why GPU tests cannot run; empty if they can."""
    for answer in answers:
        if not answer.yes:
            return f"{answer.name}: no ({answer.detail})"
    return "" if len(answers) == asked > 0 else "not all questions were asked"


def tell_github(why_not: str, answers: Sequence[Answer]) -> None:
    """Outputs of the step and the job's summary, where there are such files."""
    if output := os.environ.get("GITHUB_OUTPUT"):
        with open(output, "a", encoding="utf-8") as file:
            file.write(f"gpu={'false' if why_not else 'true'}\nreason={why_not}\n")
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        verdict = f"**GPU tests: NOT RUN** - {why_not}" if why_not else "GPU tests can run here."
        rows = [f"| {a.name} | {'yes' if a.yes else 'no'} | {a.detail} |" for a in answers]
        table = ["| question | answer | detail |", "| --- | --- | --- |", *rows]
        with open(summary, "a", encoding="utf-8") as file:
            file.write("\n".join([verdict, "", *table, ""]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask, tell, and give the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the answers to FILE")
    options = parser.parse_args(arguments)
    answers = ask_all(QUESTIONS)
    why_not = reason(answers, len(QUESTIONS))
    for answer in answers:
        print(f"{answer.name}: {'yes' if answer.yes else 'NO'} ({answer.detail})")
    print(f"GPU tests cannot run here: {why_not}" if why_not else "GPU tests can run here.")
    tell_github(why_not, answers)
    if options.json:
        content = {"gpu": not why_not, "reason": why_not, "answers": [a._asdict() for a in answers]}
        options.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return EXIT_CANNOT_RUN if why_not else EXIT_CAN_RUN


if __name__ == "__main__":
    sys.exit(main())
