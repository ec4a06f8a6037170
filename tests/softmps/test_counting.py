"""``mps_ds.softmps.count()``: exact numbers for small programs."""

from __future__ import annotations

import threading

import pytest
import torch

import mps_ds.softmps as softmps
from mps_ds.softmps import OpCount

FLOAT = 4  # bytes


def test_an_operator_reads_its_arguments_and_writes_its_result() -> None:
    x, y = torch.ones(6, device="mps"), torch.ones(6, device="mps")
    with softmps.count() as c:
        x + y
    assert c.ops == {"aten::add.Tensor": OpCount(1, 2 * 6 * FLOAT, 6 * FLOAT)}
    assert (c.bytes_in, c.bytes_out) == (12 * FLOAT, 6 * FLOAT)
    assert (c.waits, c.host_reads, c.host_writes, c.commits, c.dispatches) == (0, 0, 0, 0, 0)


def test_in_place_out_and_overwriting_operators() -> None:
    x, out = torch.ones(6, device="mps"), torch.empty(0, device="mps")
    with softmps.count() as c:
        x.add_(1)
        torch.mul(x, 2, out=out)  # resized: what counts is its size afterwards
        x.zero_()
    assert c.ops == {
        "aten::add_.Tensor": OpCount(1, 6 * FLOAT, 6 * FLOAT),
        "aten::mul.out": OpCount(1, 6 * FLOAT, 6 * FLOAT),
        "aten::zero_": OpCount(1, 0, 6 * FLOAT),
    }


def test_a_broadcast_counts_its_elements_once() -> None:
    row = torch.ones(3, device="mps").expand(5, 3)
    with softmps.count() as c:
        row.contiguous()
    assert c.ops["aten::copy_"] == OpCount(1, 3 * FLOAT, 15 * FLOAT)


def test_lists_of_tensors_count_each() -> None:
    xs = [torch.ones(n, device="mps") for n in (2, 3)]
    with softmps.count() as c:
        torch.cat(xs)
    assert c.ops == {"aten::cat": OpCount(1, 5 * FLOAT, 5 * FLOAT)}


def test_views_allocations_and_metadata_cost_nothing() -> None:
    x = torch.ones(4, 4, device="mps")
    with softmps.count() as c:
        _ = x.t()[1:], x.view(16), x.shape, torch.empty(3, device="mps")
    assert c.ops == {}


def test_reads_and_waits_belong_to_the_operator_that_makes_them() -> None:
    x = torch.ones(6, device="mps")
    with softmps.count() as c:
        x[0].item()
        x.cpu()
        x.nonzero()
        torch.mps.synchronize()
        x.copy_(torch.ones(6))
    assert c.ops == {
        "aten::_local_scalar_dense": OpCount(1, FLOAT, 0, host_reads=1, waits=1),
        "aten::copy_": OpCount(2, 2 * 6 * FLOAT, 2 * 6 * FLOAT, host_reads=1, waits=2),
        "aten::nonzero": OpCount(1, 6 * FLOAT, 6 * 8, host_reads=1, waits=1),
    }
    assert (c.host_reads, c.host_writes, c.waits) == (3, 1, 5)


def test_a_training_step() -> None:
    """Linear 4 -> 2 without bias, batch 3, SGD: every operator, every byte."""
    model = torch.nn.Linear(4, 2, bias=False, device="mps")
    x = torch.ones(3, 4, device="mps")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, foreach=False)
    with softmps.count() as c:
        model(x).sum().backward()
        optimizer.step()
    weight, batch, output = 8 * FLOAT, 12 * FLOAT, 6 * FLOAT
    # The gradient that sum() hands back is one number, broadcast.
    assert c.ops == {
        "aten::mm": OpCount(2, (batch + weight) + (FLOAT + batch), output + weight),
        "aten::sum.dim_IntList": OpCount(1, output, FLOAT),
        "aten::fill_.Scalar": OpCount(1, 0, FLOAT),
        "aten::add_.Tensor": OpCount(1, 2 * weight, weight),
    }
    assert (c.host_reads, c.waits, c.commits) == (0, 0, 0)


def test_kernels_are_in_the_table() -> None:
    kernels = torch.mps.compile_shader(
        "kernel void fill_with_two(device float* x, uint i [[thread_position_in_grid]])"
        "{ x[i] = 2; }"
    )
    x = torch.zeros(64, device="mps")
    kernels.fill_with_two(x)
    with softmps.count() as c:
        kernels.fill_with_two(x)
        kernels.fill_with_two(x)
        x.tolist()
    assert c.dispatches == c.kernels["fill_with_two"]["dispatches"] == 2
    assert c.kernels["fill_with_two"]["threads"] == 128
    assert c.commits == 1
    assert "fill_with_two" in str(c)


def test_counts_nest_and_survive_a_reset() -> None:
    x = torch.ones(2, device="mps")
    x + 1  # before: counts for neither
    with softmps.count() as outer:
        x + 1
        with softmps.count() as inner:
            x + 1
            softmps.reset_counters()
            x + 1
        x.item() if x.numel() == 1 else x[0].item()
    assert inner.ops["aten::add.Tensor"].calls == 2
    assert outer.ops["aten::add.Tensor"].calls == 3
    assert (inner.host_reads, outer.host_reads) == (0, 1)
    x + 1  # after
    assert outer.ops["aten::add.Tensor"].calls == 3


def test_a_count_can_be_read_so_far_and_used_again() -> None:
    x = torch.ones(2, device="mps")
    c = softmps.count()
    assert c.ops == {}
    with c:
        x + 1
        assert c.ops["aten::add.Tensor"].calls == 1
        x + 1
        assert c.ops["aten::add.Tensor"].calls == 2
    with c:
        x * 1
    assert list(c.ops) == ["aten::mul.Tensor"]


def test_threads_count_together() -> None:
    """The engine runs backward of mps on a thread of its own, so a count is of the process."""
    barrier = threading.Barrier(4)

    def work() -> None:
        x = torch.ones(2, device="mps", requires_grad=True)
        barrier.wait()
        with softmps.count() as own:
            for _ in range(50):
                x.detach() + 1
        assert own.ops["aten::add.Tensor"].calls >= 50
        (x * 2).sum().backward()

    with softmps.count() as c:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert c.ops["aten::add.Tensor"].calls == 200
    assert c.ops["aten::mul.Tensor"].calls == 8  # forward and backward


def test_the_table_is_readable() -> None:
    x = torch.ones(1000, device="mps")
    with softmps.count() as c:
        x + x
        x.sum().item()
    lines = str(c).splitlines()
    assert lines[0].split() == [
        "operator",
        "calls",
        "bytes",
        "in",
        "bytes",
        "out",
        "host",
        "reads",
        "waits",
    ]
    assert lines[1].split() == ["aten::add.Tensor", "1", "8,000", "4,000", "0", "0"]
    assert lines[-1] == "commits 0, waits 1, host_reads 1, host_writes 0"
    assert len({len(line) for line in lines[: lines.index("")]}) == 1


def test_an_unknown_figure_is_an_error() -> None:
    with pytest.raises(AttributeError, match="flops"):
        _ = softmps.count().flops
