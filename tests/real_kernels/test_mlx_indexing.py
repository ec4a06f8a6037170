"""MLX's sorting, searching and indexing kernels. All of them move values: results are exact."""

import math

import pytest
import torch
from real_kernels import mlx
from real_kernels.kernels import DTYPES, FLOATS, instances, unwritten

SORTED = (*FLOATS, "int", "char", "long")
INDICES = ("int", "uint", "long")


@pytest.fixture(scope="module")
def sorting(compiled):
    table = []
    for t in SORTED:
        table += [
            (f"sort_{t}", f"block_sort<{t}, {t}, false, 128, 4>"),
            (f"argsort_{t}", f"block_sort<{t}, uint, true, 128, 4>"),
            (f"search_left_{t}", f"searchsorted<{t}, false>"),
            (f"search_right_{t}", f"searchsorted<{t}, true>"),
        ]
    table += [
        ("sort_nc", "block_sort_nc<float, float, false, 128, 4>"),
        ("mb_sort", "mb_block_sort<float, uint, true, 64, 4>"),
        ("mb_partition", "mb_block_partition<float, uint, true, 64, 4>"),
        ("mb_merge", "mb_block_merge<float, uint, true, 64, 4>"),
    ]
    return compiled("sort", mlx.includes("sort.h", "searchsorted.h") + instances(table))


def values(shape, t: str) -> torch.Tensor:
    if t in FLOATS:
        return torch.randn(shape).to(DTYPES[t])
    return torch.randint(-100, 100, shape).to(DTYPES[t])


@pytest.mark.parametrize("t", SORTED)
def test_sort(sorting, t):
    """Rows of 500, shorter than the block; NaN comes last."""
    x = values((3, 500), t)
    if t in FLOATS:
        x[1, 7] = math.nan
    out = unwritten((3, 500), x.dtype)
    sizes = [mlx.int32(n) for n in (500, 1, 1, 500, 500)]
    sorting(f"sort_{t}", [x, out, *sizes], (1, 3), (128, 1), groups=True)
    torch.testing.assert_close(out, x.sort(1)[0], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("t", SORTED)
def test_argsort_is_stable(sorting, t):
    x = values((3, 500), t)
    out = unwritten((3, 500), torch.int32)
    sizes = [mlx.int32(n) for n in (500, 1, 1, 500, 500)]
    sorting(f"argsort_{t}", [x, out, *sizes], (1, 3), (128, 1), groups=True)
    assert torch.equal(out.long(), torch.sort(x, dim=1, stable=True)[1])


def test_sort_along_the_first_dimension(sorting):
    x = torch.randn(400, 5)
    out = unwritten((400, 5), torch.float32)
    sizes = [mlx.int32(400), mlx.int32(5), mlx.int32(5), mlx.int32(1)]
    strides = [mlx.ints(5), mlx.longs(1), mlx.longs(1)]
    sorting("sort_nc", [x, out, *sizes, *strides], (1, 5), (128, 1), groups=True)
    assert torch.equal(out, x.sort(0)[0])


def test_sort_of_many_blocks(sorting):
    """Blocks of 256 are sorted, then merged in two rounds, as MLX does it."""
    n, block, blocks = 1000, 256, 4
    x = torch.randn(n)
    keys, order = unwritten(n, torch.float32), unwritten(n, torch.int32)
    shape = [mlx.int32(1), mlx.ints(1), mlx.longs(n)]
    arguments = [x, keys, order, mlx.int32(n), mlx.int32(1), *shape]
    sorting("mb_sort", arguments, (blocks, 1), (block // 4, 1), groups=True)
    for tiles in (2, 4):
        bounds = unwritten(blocks + 1, torch.int32)
        sizes = [mlx.int32(n), mlx.int32(tiles), mlx.int32(blocks)]
        sorting("mb_partition", [bounds, keys, order, *sizes], 1, blocks + 1, groups=True)
        merged = unwritten(n, torch.float32), unwritten(n, torch.int32)
        arguments = [bounds, keys, order, *merged, *sizes]
        sorting("mb_merge", arguments, (blocks, 1), (block // 4, 1), groups=True)
        keys, order = merged
    assert torch.equal(keys, x.sort()[0])
    assert torch.equal(order.long(), torch.sort(x, stable=True)[1])


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("t", SORTED)
def test_searchsorted(sorting, t, side):
    x, wanted = values((200,), t).sort()[0], values((6, 50), t)
    out = unwritten((6, 50), torch.int32)
    arguments = [x, wanted, out, mlx.uint(200), mlx.long(1)]
    sorting(f"search_{side}_{t}", arguments, (50, 6, 1), (16, 2, 1))
    assert torch.equal(out.long(), torch.searchsorted(x, wanted, side=side))


@pytest.fixture(scope="module")
def indexing(compiled):
    table = []
    for t in ("float", "bfloat", "int"):
        for index in INDICES:
            table += [
                (f"gather_axis_{t}_{index}", f"gather_axis<{t}, {index}, int, true, true>"),
                (f"gather_front_{t}_{index}", f"gather_front<{t}, {index}, int, 2>"),
            ]
    for t in ("float", "int"):
        table += [
            (f"scatter_{t}", f"scatter_axis<{t}, int, int, Sum<{t}>, true, true>"),
            (f"scatter_set_{t}", f"scatter_axis<{t}, int, int, None, true, true>"),
            (f"masked_{t}", f"masked_assign_impl<{t}, true>"),
        ]
    table += [
        (f"slice_sum_{t}", f"slice_update_op_impl<{t}, int, Sum<{t}>, false, true, false, 1, 2>")
        for t in (*FLOATS, "int")
    ]
    headers = ["atomic.h", "reduction/ops.h"]
    headers += [
        f"indexing/{n}.h" for n in ("gather_axis", "gather_front", "scatter", "scatter_axis")
    ]
    headers += ["indexing/masked_scatter.h"]
    return compiled("indexing", mlx.includes(*headers) + instances(table))


def indices(shape, size: int, t: str) -> torch.Tensor:
    """Signed ones count from the end where they are negative."""
    lowest = 0 if t == "uint" else -size
    return torch.randint(lowest, size, shape).to(DTYPES[t])


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("t", ["float", "bfloat", "int"])
def test_take_along_axis(indexing, t, index):
    """out[i, j, k] = x[i, where[i, j, k], k]"""
    x, where = values((4, 9, 7), t), indices((4, 5, 7), 9, index)
    out = unwritten((4, 5, 7), x.dtype)
    shape, strides = mlx.ints(4, 7), mlx.longs(63, 1)
    arguments = [x, where, out, shape, strides, mlx.longs(35, 1), mlx.long(2), mlx.int32(1)]
    arguments += [mlx.int32(9), mlx.long(7), mlx.long(7)]
    indexing(f"gather_axis_{t}_{index}", arguments, (7, 5, 4), (7, 1, 1))
    assert torch.equal(out, x.gather(1, where.long() % 9))


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("t", ["float", "bfloat", "int"])
def test_take_rows(indexing, t, index):
    x, where = values((20, 33), t), indices((12,), 20, index)
    out = unwritten((12, 33), x.dtype)
    arguments = [x, where, out, mlx.long(33), mlx.int32(20)]
    indexing(f"gather_front_{t}_{index}", arguments, (17, 12), (16, 1))
    assert torch.equal(out, x[where.long() % 20])


@pytest.mark.parametrize("t", ["float", "int"])
def test_scatter_add(indexing, t):
    """Atomic adds of whole numbers: exact in every order."""
    x, updates = torch.zeros(4, 9, 7), torch.randint(-9, 9, (4, 25, 7))
    where = indices((4, 25, 7), 9, "int")
    x, updates = x.to(DTYPES[t]), updates.to(DTYPES[t])
    expected = x.scatter_add(1, where.long() % 9, updates)
    arguments = [updates, where, x, mlx.ints(4, 7), mlx.longs(175, 1), mlx.longs(175, 1)]
    arguments += [mlx.long(2), mlx.int32(1), mlx.int32(9), mlx.long(7), mlx.long(7)]
    indexing(f"scatter_{t}", arguments, (7, 25, 4), (7, 5, 1))
    assert torch.equal(x, expected)


@pytest.mark.parametrize("t", ["float", "int"])
def test_scatter(indexing, t):
    """Each place is written once."""
    x, updates = values((4, 9, 7), t), values((4, 9, 7), t)
    where = torch.rand(4, 9, 7).argsort(1)
    expected = x.scatter(1, where, updates)
    arguments = [updates, where.int(), x, mlx.ints(4, 7), mlx.longs(63, 1), mlx.longs(63, 1)]
    arguments += [mlx.long(2), mlx.int32(1), mlx.int32(9), mlx.long(7), mlx.long(7)]
    indexing(f"scatter_set_{t}", arguments, (7, 9, 4), (7, 3, 1))
    assert torch.equal(x, expected)


@pytest.mark.parametrize("t", ["float", "int"])
def test_masked_scatter(indexing, t):
    mask = torch.arange(300) % 3 == 0
    places = (mask.int().cumsum(0) - 1).clamp(min=0).int()
    source, out = values((100,), t), values((300,), t)
    expected = out.masked_scatter(mask, source)
    arguments = [mask, places, source, out, mlx.ints(100), mlx.longs(1), mlx.int32(1)]
    indexing(f"masked_{t}", [*arguments, mlx.long(100), mlx.long(300)], 300, 64)
    assert torch.equal(out, expected)


@pytest.mark.parametrize("t", [*FLOATS, "int"])
def test_slice_update(indexing, t):
    """out[2:6, 3:9] += updates"""
    updates, out = values((4, 6), t), values((8, 11), t)
    expected = out.clone()
    expected[2:6, 3:9] += updates
    arguments = [updates, out, mlx.ints(4, 6), mlx.longs(6, 1), mlx.int32(2), mlx.long(24)]
    arguments += [mlx.longs(11, 1), mlx.long(2 * 11 + 3)]
    indexing(f"slice_sum_{t}", arguments, (6, 4, 1), (6, 1, 1))
    assert torch.equal(out, expected)
