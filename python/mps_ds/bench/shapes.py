"""Shapes of the parameters of known models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Shapes:
    """The shapes of a list of tensors."""

    name: str
    title: str
    shapes: Sequence[tuple[int, ...]]

    @property
    def elements(self) -> int:
        """Of all tensors together."""
        return sum(math.prod(shape) for shape in self.shapes)


def gpt2(
    layers: int = 12, width: int = 768, vocabulary: int = 50_257, context: int = 1024
) -> Shapes:
    """GPT-2 (Radford and others, 2019), output and embedding tied: 148 tensors, 124 M elements."""
    norm = [(width,), (width,)]
    attention = [(3 * width, width), (3 * width,), (width, width), (width,)]
    mlp = [(4 * width, width), (4 * width,), (width, 4 * width), (width,)]
    layer = [*norm, *attention, *norm, *mlp]
    return Shapes("gpt2", "GPT-2", [(vocabulary, width), (context, width), *layer * layers, *norm])


def llama_1b(
    layers: int = 16,
    width: int = 2048,
    hidden: int = 8192,
    keys: int = 512,
    vocabulary: int = 128_256,
) -> Shapes:
    """Llama 3.2 1B, output and embedding tied: 146 tensors, 1.24 G elements."""
    attention = [(width, width), (keys, width), (keys, width), (width, width)]
    mlp = [(hidden, width), (hidden, width), (width, hidden)]
    layer = [*attention, *mlp, (width,), (width,)]
    return Shapes("llama1b", "Llama-1B", [(vocabulary, width), *layer * layers, (width,)])


def small(count: int = 2000) -> Shapes:
    """Many small tensors of 1 to 900 elements: launches cost more than memory traffic."""
    return Shapes("small", "small tensors", [(1 + 449 * i % 900,) for i in range(count)])


def full() -> list[Shapes]:
    """What is compared unless less is asked for."""
    return [gpt2(), llama_1b(), small()]


def quick() -> list[Shapes]:
    """With --quick."""
    return [gpt2(), small()]


def countable() -> list[Shapes]:
    """The same numbers of tensors, each narrow: counts do not depend on their sizes, and bytes an
    element hardly do."""
    return [
        Shapes("gpt2", "GPT-2 (narrow)", gpt2(width=16, vocabulary=500, context=64).shapes),
        small(300),
    ]
