"""MLX's attention for one or a few queries, its Hadamard transform, and recurrent attention."""

import math

import numpy as np
import pytest
import torch
from real_kernels import mlx
from real_kernels.accuracy import assert_within, ulp, unit
from real_kernels.kernels import DTYPES, FLOATS, instances, unwritten

HEADS, KV_HEADS, QUERIES, KEYS = 6, 3, 2, 70
MASKS = ("none", "causal", "bool", "float", "sinks")
U = unit(torch.float32)


@pytest.fixture(scope="module")
def attention(compiled):
    table = [(f"sdpa_{t}_{d}", f"sdpa_vector<{t}, {d}>") for t in FLOATS for d in (64, 128)]
    table += [(f"first_{t}", f"sdpa_vector_2pass_1<{t}, 64>") for t in FLOATS]
    table += [(f"second_{t}", f"sdpa_vector_2pass_2<{t}, 64>") for t in FLOATS]
    return compiled("sdpa", mlx.includes("sdpa_vector.h") + instances(table))


class Problem:
    """Queries of 6 heads on keys and values of 3, and what attends to what."""

    def __init__(self, t: str, dim: int, mask: str) -> None:
        self.q = torch.randn(HEADS, QUERIES, dim).to(DTYPES[t])
        self.k, self.v = (torch.randn(KV_HEADS, KEYS, dim).to(DTYPES[t]) for _ in range(2))
        self.scale = 1 / math.sqrt(dim)
        self.allowed = torch.rand(HEADS, QUERIES, KEYS) < 0.8
        self.added = torch.randn(HEADS, QUERIES, KEYS).to(DTYPES[t])
        self.sinks = torch.randn(HEADS).to(DTYPES[t])
        self.mask = mask
        self.dim = dim

    def exact(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The result in double, and what its error is relative to."""
        k, v = (x.double().repeat_interleave(HEADS // KV_HEADS, 0) for x in (self.k, self.v))
        q = self.q.double() * self.scale
        scores = q @ k.transpose(1, 2)
        if self.mask == "causal":
            last = KEYS - QUERIES + torch.arange(QUERIES)[:, None]
            scores = scores.where(torch.arange(KEYS) <= last, -math.inf)
        elif self.mask == "bool":
            scores = scores.where(self.allowed, -math.inf)
        elif self.mask == "float":
            scores = scores + self.added.double()
        if self.mask == "sinks":
            sinks = self.sinks.double()[:, None, None].expand(HEADS, QUERIES, 1)
            p = torch.cat([sinks, scores], 2).softmax(2)[:, :, 1:]
        else:
            p = scores.softmax(2)
        # A score is a dot product of `dim` terms; its error is a relative one of exp(score). Up to
        # two more differences of scores are rounded, and KEYS products are summed.
        sizes = q.abs() @ k.abs().transpose(1, 2)
        relative = 2 * (self.dim + 1) * U * sizes.amax() + (KEYS + 8) * U * (1 + 3 * sizes.amax())
        return p @ v, relative * (p @ v.abs())

    def constants(self, blocks: int = 0) -> dict[int, np.generic]:
        """Function constants 20 to 26 of MLX's kernels."""
        flags = {
            20: self.mask in ("bool", "float"), 21: False, 22: self.mask == "causal",
            23: self.mask == "bool", 24: self.mask == "float", 25: self.mask == "sinks",
        }  # fmt: skip
        return {i: np.bool_(value) for i, value in flags.items()} | {26: np.int32(blocks)}

    def masks(self) -> list:
        """Arguments for the mask; those that are not there stay unset."""
        given = [self.allowed if self.mask == "bool" else None]
        given += [self.added if self.mask == "float" else None]
        strides = [mlx.int32(n) for n in (1, KEYS, QUERIES * KEYS)]
        given += strides if self.mask in ("bool", "float") else [None] * 3
        return [*given, self.sinks if self.mask == "sinks" else None]


def strides(dim: int) -> list:
    return [mlx.long(KEYS * dim), mlx.long(dim)] * 2


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize("t", FLOATS)
def test_attention(attention, t, dim, mask):
    problem = Problem(t, dim, mask)
    out = unwritten((HEADS, QUERIES, dim), DTYPES[t])
    sizes = [mlx.int32(HEADS // KV_HEADS), mlx.int32(KEYS), *strides(dim)]
    arguments = [problem.q, problem.k, problem.v, out, *sizes, np.float32(problem.scale)]
    arguments += [*problem.masks(), mlx.int32(HEADS) if mask == "sinks" else None]
    attention(
        f"sdpa_{t}_{dim}", arguments, (HEADS, QUERIES, 1), (1024, 1, 1), groups=True,
        constants=problem.constants(),
    )  # fmt: skip
    exact, error = problem.exact()
    assert_within(out, exact, error + 0.5 * ulp(exact, out.dtype), f"attention of {t}, {mask}")


@pytest.mark.parametrize("mask", ["none", "causal"])
@pytest.mark.parametrize("t", FLOATS)
def test_attention_in_two_passes(attention, t, mask):
    """Blocks of keys first, each with its own maximum and sum; the second kernel joins them."""
    problem, blocks = Problem(t, 64, mask), 32
    parts = unwritten((HEADS, QUERIES, blocks, 64), DTYPES[t])
    sums, maxima = (unwritten((HEADS, QUERIES, blocks), torch.float32) for _ in range(2))
    arguments = [problem.q, problem.k, problem.v, parts, sums, maxima, None, mlx.int32(KEYS)]
    arguments += [*strides(64), np.float32(problem.scale)]
    attention(
        f"first_{t}", arguments, (KV_HEADS, 1, blocks), (32, HEADS // KV_HEADS, QUERIES),
        groups=True, constants=problem.constants(blocks),
    )  # fmt: skip
    out = unwritten((HEADS, QUERIES, 64), DTYPES[t])
    attention(
        f"second_{t}", [parts, sums, maxima, out, mlx.int32(blocks)], (HEADS, QUERIES, 1),
        (1024, 1, 1), groups=True, constants=problem.constants(blocks),
    )  # fmt: skip
    exact, error = problem.exact()
    # The parts are rounded to the type of the elements: three keys each, weights of at most 1.
    rounding = 3 * unit(DTYPES[t]) * problem.v.double().abs().amax()
    assert_within(out, exact, error + rounding + 0.5 * ulp(exact, out.dtype), f"2 passes of {t}")


@pytest.mark.parametrize("t", FLOATS)
@pytest.mark.parametrize("n", [64, 512])
def test_hadamard_transform(compiled, t, n):
    """log2(n) sums for each result, rounded to the type of the elements now and then."""
    table = [(f"hadamard_{t}_{n}", f"hadamard_n<{t}, {n}, 16, 4>")]
    kernels = compiled(f"hadamard_{t}_{n}", mlx.includes("hadamard.h") + instances(table))
    x = torch.randn(5, n).to(DTYPES[t])
    out = unwritten((5, n), x.dtype)
    scale = np.float32(1 / math.sqrt(n))
    kernels(f"hadamard_{t}_{n}", [x, out, scale], (n // 16, 5, 1), (n // 16, 1, 1))
    matrix = torch.ones(1, 1, dtype=torch.float64)
    while len(matrix) < n:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    exact = x.double() @ matrix / math.sqrt(n)
    stages = 1 + math.ceil(math.log2(n) / 4)
    sizes = x.double().abs().sum(1, keepdim=True) / math.sqrt(n)
    error = (stages * unit(x.dtype) + math.log2(n) * U) * sizes + 1.01 * ulp(exact, x.dtype)
    assert_within(out, exact, error, f"Hadamard transform of {n} {t}")
