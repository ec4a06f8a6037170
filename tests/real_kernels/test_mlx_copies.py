"""MLX's copy, arange and select kernels: conversions round once, strides say what is read."""

import math

import pytest
import torch
from real_kernels import mlx
from real_kernels.kernels import DTYPES, FLOATS, instances, unwritten

SIZE = 501
TYPES = (*FLOATS, "char", "int", "long", "bool", "uchar")
STRIDED = ("g_nd1", "g_nd2", "g_nd3", "g", "gg_nd1", "gg_nd2", "gg_nd3", "gg")
SELECTS = {"v": "false, false", "sv": "true, false", "vs": "false, true"}


def table():
    """(name, instance) of every kernel of copy.h and arange.h in this file."""
    for source in TYPES:
        for target in TYPES:
            yield f"copy_{source}_{target}", f"copy_v<{source}, {target}>"
    for t in FLOATS:
        yield f"fill_{t}", f"copy_s<{t}, {t}>"
    for layout in STRIDED:
        yield f"copy_{layout}", f"copy_{layout}<float, half>"
    for t in (*FLOATS, "int", "uchar", "long"):
        yield f"arange_{t}", f"arange<{t}>"


@pytest.fixture(scope="module")
def kernels(compiled):
    return compiled("copies", mlx.includes("copy.h", "arange.h") + instances(table()))


@pytest.fixture(scope="module")
def selects(compiled):
    table = [
        (f"select_{name}_{t}", f"ternary_v<{t}, Select, {scalars}>")
        for name, scalars in SELECTS.items()
        for t in (*FLOATS, "int")
    ]
    table += [
        ("select_g", "ternary_g<float, Select>"),
        ("select_v2", "ternary_v2<float, Select, false, false>"),
    ]
    return compiled("select", mlx.includes("ternary_ops.h", "ternary.h") + instances(table))


def values(t: str) -> torch.Tensor:
    if t == "bool":
        return torch.arange(SIZE) % 3 == 0
    if t in FLOATS:
        return (torch.randn(SIZE) * 20).abs().to(DTYPES[t])
    return torch.randint(0, 100, (SIZE,), dtype=DTYPES[t])


@pytest.mark.parametrize("target", TYPES)
@pytest.mark.parametrize("source", TYPES)
def test_conversion_equals_pytorch(kernels, source, target):
    """In the range of all types: to nearest, or towards zero from floats to integers."""
    x = values(source)
    out = unwritten(SIZE, DTYPES[target])
    threads = math.ceil(SIZE / (8 // out.element_size()))
    kernels(f"copy_{source}_{target}", [x, out, mlx.uint(SIZE)], threads, 32)
    assert torch.equal(out, x.to(DTYPES[target]))


@pytest.mark.parametrize("t", FLOATS)
def test_fill(kernels, t):
    x = torch.tensor([1.5]).to(DTYPES[t])
    out = unwritten(SIZE, x.dtype)
    threads = math.ceil(SIZE / (8 // out.element_size()))
    kernels(f"fill_{t}", [x, out, mlx.uint(SIZE)], threads, 32)
    assert torch.equal(out, x.expand(SIZE))


@pytest.mark.parametrize("both", [False, True], ids=["dense", "strided"])
@pytest.mark.parametrize("ndim", [1, 2, 3, 4])
def test_strided_copies(kernels, ndim, both):
    """The source has strides, with `strided` the destination too; four dimensions are general."""
    shape = (2, 7, 5, 9)[-ndim:]
    memory = torch.randn(tuple(reversed(shape)))
    x = memory.permute(*reversed(range(ndim)))
    target = unwritten(tuple(2 * n for n in shape), torch.float16)
    y = target[tuple(slice(None, None, 2) for _ in shape)] if both else unwritten(shape, torch.half)
    name = ("gg" if both else "g") + (f"_nd{ndim}" if ndim < 4 else "")
    strides = [mlx.longs(*x.stride()), mlx.longs(*y.stride()) if both else None]
    rank = [mlx.int32(ndim)] if ndim == 4 else []
    shapes = mlx.ints(*shape) if ndim == 4 else None
    grid = (*reversed(shape),) if ndim < 4 else (shape[3], shape[2], shape[0] * shape[1])
    before = target.clone()
    kernels(f"copy_{name}", [memory, target if both else y, shapes, *strides, *rank], grid, 3)
    assert torch.equal(y, x.half())
    if both:
        rest = torch.ones_like(target, dtype=torch.bool)
        rest[tuple(slice(None, None, 2) for _ in shape)] = False
        assert torch.equal(target[rest].view(torch.int16), before[rest].view(torch.int16))


@pytest.mark.parametrize("t", [*FLOATS, "int", "uchar", "long"])
def test_arange(kernels, t):
    """Small integers, which every type holds."""
    start, step = (torch.tensor([value]).to(DTYPES[t]) for value in (3, 2))
    out = unwritten(100, DTYPES[t])
    kernels(f"arange_{t}", [mlx.raw(start), mlx.raw(step), out], 100, 32)
    assert torch.equal(out, torch.arange(3, 203, 2).to(DTYPES[t]))


@pytest.mark.parametrize("t", [*FLOATS, "int"])
@pytest.mark.parametrize("which", SELECTS)
def test_select(selects, which, t):
    """where(condition, x, y), with one value for x (sv) or y (vs), or for neither (v)."""
    condition = torch.arange(SIZE) % 3 == 0
    x, y = values(t), values(t)
    x = x[:1].clone() if which == "sv" else x
    y = y[:1].clone() if which == "vs" else y
    out = unwritten(SIZE, DTYPES[t])
    threads = math.ceil(SIZE / (8 // out.element_size()))
    selects(f"select_{which}_{t}", [condition, x, y, out, mlx.uint(SIZE)], threads, 32)
    assert torch.equal(out, torch.where(condition, x, y))


def test_select_layouts(selects):
    condition = torch.arange(600) % 3 == 0
    x, y = torch.randn(600), torch.randn(600)
    out = unwritten(600, torch.float32)
    selects("select_v2", [condition, x, y, out, mlx.long(600)], (30, 10), (16, 2))
    assert torch.equal(out, torch.where(condition, x, y))

    shape, strides = (5, 10, 12), (1, 60, 5)
    out = unwritten(shape, torch.float32)
    arguments = [condition, x, y, out, mlx.ints(*shape), mlx.longs(120, 12, 1)]
    arguments += [mlx.longs(*strides), mlx.longs(0, 0, 1), mlx.int32(3)]
    selects("select_g", arguments, (12, 10, 5), (4, 1, 1))
    expected = torch.where(condition.reshape(shape), x.as_strided(shape, strides), y[:12])
    assert torch.equal(out, expected)
