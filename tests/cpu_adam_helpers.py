"""Parameters, gradients and training for the tests of CPUAdam."""

import torch

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16


def make_params(shapes, dtype=F32, seed: int = 0) -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(s, generator=generator).to(dtype)) for s in shapes]


def set_grads(params, seed: int) -> None:
    generator = torch.Generator().manual_seed(1000 + seed)
    for param in params:
        param.grad = torch.randn(param.shape, generator=generator).to(param.dtype)


def values(params) -> list[torch.Tensor]:
    return [p.detach().clone() for p in params]


def assert_same(params, others) -> None:
    for a, b in zip(params, others, strict=True):
        assert torch.equal(a, b)


def train(optimizer, params, steps) -> None:
    for step in steps:
        set_grads(params, step)
        optimizer.step()


def clones(params):
    return [torch.nn.Parameter(p.detach().clone()) for p in params]
