"""A real training run: the same small GPT on the same text, once with each optimizer."""

import math
from collections import Counter
from collections.abc import Callable
from importlib.resources import files

import torch

from mps_ds.selftest.gpt import GPT, Shape
from mps_ds.selftest.progress import Progress
from mps_ds.selftest.report import Figure

STEPS = 120
BATCH = 8
LEARNING_RATE = 1e-3
"""Small enough that training forgets rounding; at 3e-3 this model amplifies it 100 times."""
WEIGHT_DECAY = 0.1

LOSS_BOUND = 1e-5
"""Nats. The two optimizers round differently, by up to 2 ulp of each parameter in each step, and
training carries that on. The bound is more than five times what rounding alone does to these
losses, and less than a hundredth of what the mildest mistake in an Adam does
(tests/selftest/test_training.py measures both)."""

MakeOptimizer = Callable[..., torch.optim.Optimizer]


class Text:
    """Newton's Opticks, Book I, Part I (opticks_source.txt has its origin), as numbers."""

    def __init__(self) -> None:
        self.text = (files("mps_ds.selftest") / "opticks.txt").read_text(encoding="utf-8")
        self.characters = sorted(set(self.text))
        number = {character: index for index, character in enumerate(self.characters)}
        self.tokens = torch.tensor([number[character] for character in self.text])

    def batches(self, steps: int, context: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """The same random excerpts each time: (batch, context) tokens and what follows each."""
        generator = torch.Generator().manual_seed(1)
        window = torch.arange(context + 1)
        batches = []
        for _ in range(steps):
            starts = torch.randint(len(self.tokens) - context, (BATCH, 1), generator=generator)
            excerpt = self.tokens[starts + window]
            batches.append((excerpt[:, :-1].contiguous(), excerpt[:, 1:].contiguous()))
        return batches

    def letter_entropy(self) -> float:
        """Nats a character of a model that knows how frequent each one is, and nothing else."""
        total = len(self.text)
        return -sum(n / total * math.log(n / total) for n in Counter(self.text).values())


def train(
    make_optimizer: MakeOptimizer,
    text: Text,
    device: str = "mps",
    steps: int = STEPS,
    after_step: Callable[[int, GPT], None] = lambda step, model: None,
    label: str = "training",
) -> list[float]:
    """The losses of one run from a fixed seed, in nats a character."""
    torch.manual_seed(0)
    shape = Shape(len(text.characters))
    model = GPT(shape).to(device)  # initialised on the CPU: the same values on every device
    optimizer = make_optimizer(model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    batches = text.batches(steps, shape.context)
    losses = []
    for step in Progress(label, steps):
        tokens, following = (part.to(device) for part in batches[step])
        loss = model.loss(tokens, following)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        after_step(step, model)
        losses.append(loss.item())
    return losses


def training_run() -> list[Figure]:
    """Both optimizers on `mps`: the losses agree, and fall below what letter frequencies give."""
    from mps_ds.optim import FusedAdam

    text = Text()
    expected = train(torch.optim.AdamW, text, label="torch.optim.AdamW")
    losses = train(FusedAdam, text, label="FusedAdam")
    difference = max(abs(a - b) for a, b in zip(losses, expected, strict=True))
    finite = all(math.isfinite(loss) for loss in (*losses, *expected))
    last = sum(losses[-10:]) / 10
    return [
        Figure(
            f"largest difference of the losses in {STEPS} steps",
            difference if finite else math.inf,
            "<=",
            LOSS_BOUND,
            "nats",
        ),
        Figure(
            "first loss, of ln(number of characters)",
            losses[0] / math.log(len(text.characters)),
            "<=",
            1.1,
        ),
        Figure(
            "mean of the last 10 losses, below the entropy of the letters",
            last,
            "<",
            text.letter_entropy(),
            "nats",
        ),
    ]
