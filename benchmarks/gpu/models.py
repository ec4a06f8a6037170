"""Lists of shapes, and tensors of them."""

from __future__ import annotations

import torch

Shapes = list[tuple[int, ...]]


def llama_1b() -> Shapes:
    """Of Llama 3.2 1B: 146 tensors, 1.24 G elements."""
    hidden, inner, layers, vocabulary = 2048, 8192, 16, 128256
    shapes: Shapes = [(vocabulary, hidden)]
    for _ in range(layers):
        shapes += [(hidden, hidden), (512, hidden), (512, hidden), (hidden, hidden)]
        shapes += [(inner, hidden), (inner, hidden), (hidden, inner), (hidden,), (hidden,)]
    return [*shapes, (hidden,)]


def gpt2() -> Shapes:
    """Of GPT-2: 148 tensors, 124 M elements."""
    hidden, layers, vocabulary = 768, 12, 50257
    shapes: Shapes = [(vocabulary, hidden), (1024, hidden)]
    for _ in range(layers):
        shapes += [(hidden,), (hidden,), (hidden, 3 * hidden), (3 * hidden,), (hidden, hidden)]
        shapes += [(hidden,), (hidden,), (hidden,), (hidden, 4 * hidden), (4 * hidden,)]
        shapes += [(4 * hidden, hidden), (hidden,)]
    return [*shapes, (hidden,), (hidden,)]


def small(count: int = 2000) -> Shapes:
    """Many tensors of 37 to 947 elements, about 0.9 M in all."""
    return [(37 + i % 911,) for i in range(count)]


MODELS = {"llama-1b": llama_1b, "gpt2": gpt2, "2000 small": small}


class State:
    """Params, gradients and states of a list of shapes; values as in training, none zero."""

    def __init__(
        self,
        shapes: Shapes,
        param: torch.dtype = torch.float32,
        grad: torch.dtype = torch.float32,
        state: torch.dtype = torch.float32,
        copy: torch.dtype | None = None,
        seed: int = 0,
    ) -> None:
        generator = torch.Generator("cuda").manual_seed(seed)

        def normal(dtype: torch.dtype, scale: float) -> list[torch.Tensor]:
            return [
                torch.randn(s, device="cuda", generator=generator).mul_(scale).to(dtype)
                for s in shapes
            ]

        self.params = normal(param, 1.0)
        self.grads = normal(grad, 1.0)
        self.exp_avgs = normal(state, 0.1)
        self.exp_avg_sqs = [v.square_() for v in normal(state, 0.1)]
        self.copies = None if copy is None else [p.to(copy) for p in self.params]
        self.numel = sum(p.numel() for p in self.params)
