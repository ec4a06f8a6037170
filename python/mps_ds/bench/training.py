"""--train: where the time of a training step goes, and what another optimizer changes of it.

One model, one set of states, and optimizers that take turns on them: what differs between two turns
is the optimizer alone.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mps_ds.selftest.gpt import GPT, Shape

from .cases import LR, WEIGHT_DECAY, Work, states_of, torch_adamw
from .counting import Counts, count
from .results import COUNT_HEAD, NAME_WIDTH, print_table
from .target import Target

GPT2 = Shape(vocabulary=50_257, context=1024, width=768, heads=12, layers=12)
COUNTABLE = Shape(vocabulary=101, context=16, width=16, heads=2, layers=2)
MAX_NORM = 1.0
ROUNDS, QUICK_ROUNDS = 10, 3
LITTLE = 0.05
"""A step that gets faster by less than this share has little to gain."""
BATCHES = ((8, 512), (4, 512), (2, 512), (1, 512), (1, 256), (1, 128))
PHASES = ("forward", "backward", "optimizer")


def needs(shape: Shape, batch: int, time_steps: int) -> int:
    """Bytes that training allocates at most: parameters, gradients, states and foreach's
    temporaries; activations of each layer with the attention's scores; logits and their gradients.
    """
    tokens = batch * time_steps
    layer = 12 * shape.width**2 + 13 * shape.width
    embeddings = (shape.vocabulary + shape.context) * shape.width
    parameters = shape.layers * layer + embeddings
    activations = tokens * shape.layers * (40 * shape.width + 4 * shape.heads * time_steps)
    return 4 * (6 * parameters + activations + 4 * tokens * shape.vocabulary)


def largest_batch(shape: Shape, budget: int) -> tuple[int, int] | None:
    """Batch and time steps; None: not even the smallest fits."""
    return next((b for b in BATCHES if needs(shape, *b) <= budget), None)


@dataclass(frozen=True)
class Training:
    """A model, a batch, and the optimizers: clip and step in one call each. The first is torch's
    default and the last ours."""

    model: GPT
    tokens: Tensor
    following: Tensor
    optimizers: Mapping[str, Work]

    def forward(self) -> Tensor:
        """The loss, from no gradients."""
        self.model.zero_grad(set_to_none=True)
        return self.model.loss(self.tokens, self.following)


def prepare(shape: Shape, batch: int, time_steps: int, device: str) -> Training:
    """Random weights and tokens: times do not depend on them."""
    model = GPT(shape).to(device)
    excerpt = torch.randint(shape.vocabulary, (batch, time_steps + 1), device=device)
    tokens, following = excerpt[:, :-1].contiguous(), excerpt[:, 1:].contiguous()
    model.loss(tokens, following).backward()  # type: ignore[no-untyped-call]
    return Training(model, tokens, following, _optimizers(model, device))


def _optimizers(model: GPT, device: str) -> dict[str, Work]:
    from mps_ds.optim import CPUAdam, FusedAdam

    params = list(model.parameters())
    ours: torch.optim.Optimizer
    if device == "cpu":
        ours = CPUAdam(params, lr=LR, weight_decay=WEIGHT_DECAY)
    else:
        ours = FusedAdam(params, lr=LR, weight_decay=WEIGHT_DECAY)
    ours.step()

    def clipped(step: Callable[[], object]) -> Work:
        def work() -> None:
            torch.nn.utils.clip_grad_norm_(params, MAX_NORM)
            step()

        return work

    theirs = torch_adamw(params, states_of(ours, params))
    default = "torch AdamW, for-loop"  # of torch.optim on mps and on the CPU
    order = [default, *(name for name in theirs if name != default)]
    works = {name: clipped(theirs[name].step) for name in order}
    if isinstance(ours, FusedAdam):
        works["mps_ds FusedAdam"] = lambda: ours.step(max_norm=MAX_NORM)
    else:
        works["mps_ds CPUAdam"] = clipped(ours.step)
    return works


Phases = dict[str, float]


def time_steps(training: Training, target: Target, rounds: int) -> dict[str, Phases]:
    """Median seconds of the phases with each optimizer. Forward and backward are the same work with
    all, so that theirs are medians of all steps."""
    samples: dict[str, list[list[float]]] = {name: [] for name in training.optimizers}
    for name in samples:  # warm-up
        _step(training, target, name)
    for _ in range(rounds):
        for name in samples:
            samples[name].append(_step(training, target, name))
    every = [step for steps in samples.values() for step in steps]
    shared = {p: statistics.median(step[i] for step in every) for i, p in enumerate(PHASES[:2])}
    return {
        name: {**shared, PHASES[2]: statistics.median(step[2] for step in steps)}
        for name, steps in samples.items()
    }


def _step(training: Training, target: Target, name: str) -> list[float]:
    """Seconds of each phase. Waiting between them costs a little; it is the same for all."""
    target.synchronize()
    marks = [time.perf_counter()]

    def mark() -> None:
        target.synchronize()
        marks.append(time.perf_counter())

    loss = training.forward()
    mark()
    loss.backward()  # type: ignore[no-untyped-call]
    mark()
    training.optimizers[name]()
    mark()
    return [end - start for start, end in itertools.pairwise(marks)]


def verdict(steps: Mapping[str, Phases]) -> str:
    """What the optimizer makes of a step, in a sentence or two; the last one is ours."""
    *theirs, ours = steps
    default = theirs[0]
    best = min(theirs, key=lambda name: steps[name]["optimizer"])
    total = {name: sum(phases.values()) for name, phases in steps.items()}
    share = steps[default]["optimizer"] / total[default]
    text = (
        f"The optimizer is {share:.0%} of a step with torch's default ({default}), "
        f"{steps[best]['optimizer'] / total[best]:.0%} with its fastest ({best}), "
        f"{steps[ours]['optimizer'] / total[ours]:.0%} with {ours}: "
        f"a step takes {_change(total[default], total[ours])} time than with the default, "
        f"{_change(total[best], total[ours])} than with the fastest."
    )
    gain = 1 - total[ours] / total[best]
    if gain < 0:
        text += " There is nothing to gain here: torch's fastest is faster."
    elif gain < LITTLE:
        rest = 1 - steps[ours]["optimizer"] / total[ours]
        text += f" There is little to gain here: forward and backward are {rest:.0%} of that step."
    return text


def _change(before: float, after: float) -> str:
    share = 1 - after / before
    return f"{abs(share):.1%} {'less' if share >= 0 else 'MORE'}"


def count_steps(training: Training) -> dict[str, Counts]:
    """Counts of forward with backward, and of each optimizer."""

    def gradients() -> None:
        training.forward().backward()  # type: ignore[no-untyped-call]

    return {
        "forward and backward": count(gradients),
        **{name: count(work) for name, work in training.optimizers.items()},
    }


def run(target: Target, quick: bool) -> dict[str, Any]:
    """Measure and print; gives what the JSON file holds."""
    if target.counts:
        return _run_counts()
    size = largest_batch(GPT2, target.budget)
    if size is None:
        skipped = (
            f"a model of GPT-2's size needs {needs(GPT2, *BATCHES[-1]) / 2**30:.1f} GiB, more than "
            f"the {target.budget / 2**30:.1f} GiB that the bench allows itself"
        )
        print(f"\nTraining: left out: {skipped}")
        return {"skipped": skipped}
    batch, length = BATCHES[-2] if quick and size in BATCHES[:-2] else size
    training = prepare(GPT2, batch, length, target.device)
    return _run_times(training, target, QUICK_ROUNDS if quick else ROUNDS)


def _run_times(training: Training, target: Target, rounds: int) -> dict[str, Any]:
    steps = time_steps(training, target, rounds)
    elements = sum(param.numel() for param in training.model.parameters())
    batch, length = training.tokens.shape
    print(
        f"\nTraining: {elements / 1e6:.0f} M parameters, fp32, batch {batch}, {length} tokens, "
        f"{target.device}; gradients clipped"
    )
    rows = []
    for name, phases in steps.items():
        total = sum(phases.values())
        times = [f"{seconds * 1e3:.1f}" for seconds in (*phases.values(), total)]
        rows.append((name, [*times, f"{phases['optimizer'] / total:.1%}"]))
    print_table(("forward ms", "backward ms", "optimizer ms", "step ms", "optimizer"), rows)
    text = verdict(steps)
    print(f"  {text}")
    return {
        "parameters": elements,
        "batch": batch,
        "tokens": length,
        "device": target.device,
        "steps": steps,
        "verdict": text,
    }


def _run_counts() -> dict[str, Any]:
    training = prepare(COUNTABLE, 2, COUNTABLE.context, "mps")
    counts = count_steps(training)
    elements = sum(param.numel() for param in training.model.parameters())
    print(f"\nTraining: {elements:,} parameters, fp32; gradients clipped; bytes a parameter")
    head = (*COUNT_HEAD[:-1], "bytes")
    rows = []
    for name, each in counts.items():
        *whole, moved = vars(each).values()
        cells = [*(f"{value:,}" for value in whole), f"{moved / elements:.1f}"]
        rows.append((name[:NAME_WIDTH], cells))
    print_table(head, rows)
    return {
        "parameters": elements,
        "steps": {name: vars(each) for name, each in counts.items()},
    }
