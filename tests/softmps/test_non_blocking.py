"""Copies with non_blocking=True are unfinished until the program waits, as on a slow GPU."""

from __future__ import annotations

import pytest
import torch

import mps_ds.softmps as softmps

# ---- device to host ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool])
@pytest.mark.parametrize("source_dtype", [torch.float32, torch.bfloat16])
def test_the_host_sees_nothing_before_a_wait(dtype, source_dtype) -> None:
    x = torch.tensor([0.0, 1, 2, 3], device="mps", dtype=source_dtype)
    target = torch.zeros(4, dtype=dtype)
    target.copy_(x, non_blocking=True)
    assert target.tolist() != x.to(dtype).tolist()
    torch.mps.synchronize()
    assert target.tolist() == torch.arange(4.0).to(dtype).tolist()


def test_a_forgotten_wait_reads_nan() -> None:
    assert torch.ones(4, device="mps").to("cpu", non_blocking=True).isnan().all()


def test_the_values_are_those_at_the_call() -> None:
    x = torch.ones(4, device="mps")
    target = x.to("cpu", non_blocking=True)
    x.fill_(9)
    torch.mps.synchronize()
    assert target.tolist() == [1] * 4


def test_strided_targets_and_their_surroundings() -> None:
    x = torch.arange(6.0, device="mps").view(2, 3)
    base = torch.zeros(4, 6)
    base[::2, ::2].copy_(x, non_blocking=True)
    assert base[1::2].abs().sum() == 0
    torch.mps.synchronize()
    assert base[::2, ::2].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert base.sum() == 15


def test_an_event_delivers_what_was_before_it() -> None:
    x = torch.ones(4, device="mps")
    first = x.to("cpu", non_blocking=True)
    event = torch.mps.Event()
    event.record()
    second = x.to("cpu", non_blocking=True)
    event.synchronize()
    assert first.tolist() == [1] * 4
    assert second.isnan().all()
    torch.mps.synchronize()
    assert second.tolist() == [1] * 4


def test_a_dropped_target_is_harmless() -> None:
    torch.ones(1000, device="mps").to("cpu", non_blocking=True)
    torch.mps.synchronize()
    assert not softmps.pending()


def test_it_is_a_read_and_a_commit_but_no_wait() -> None:
    x = torch.ones(4, device="mps")
    with softmps.count() as c:
        keep = x.to("cpu", non_blocking=True)
    assert (c.host_reads, c.commits, c.waits) == (1, 1, 0)
    torch.mps.synchronize()
    del keep


# ---- host to device ------------------------------------------------------------------------------


def test_a_source_that_lives_until_the_wait_is_fine() -> None:
    source = torch.arange(4.0)
    with softmps.count() as c:
        x = source.to("mps", non_blocking=True)
    assert (c.host_writes, c.commits, c.waits) == (1, 1, 0)
    torch.mps.synchronize()
    source.fill_(7)
    torch.mps.synchronize()
    assert x.tolist() == [0, 1, 2, 3]


def test_a_source_that_is_freed_before_the_wait_is_found() -> None:
    """pytorch#189690: the GPU reads freed memory."""
    outputs = [torch.full((1,), float(i)).to("mps", non_blocking=True) for i in range(3)]
    with pytest.raises(RuntimeError, match="source freed before the program waited"):
        torch.cat(outputs).cpu()
    torch.mps.synchronize()


def test_waiting_before_it_is_freed_is_fine() -> None:
    outputs = []
    for i in range(3):
        source = torch.full((1,), float(i))
        outputs.append(source.to("mps", non_blocking=True).cpu())
    assert torch.cat(outputs).tolist() == [0, 1, 2]


def test_a_source_that_changes_before_the_wait_is_found() -> None:
    source = torch.zeros(4)
    x = source.to("mps", non_blocking=True)
    source[2] = 1
    with pytest.raises(RuntimeError, match=r"of 16 bytes .* source changed before the program"):
        x.sum().item()
    torch.mps.synchronize()


@pytest.mark.parametrize(
    "copy",
    [
        lambda source: source.to("mps", torch.float16, non_blocking=True),
        lambda source: torch.zeros(3, 4, device="mps").copy_(source, non_blocking=True),
        lambda source: source[::2].to("mps", non_blocking=True),
    ],
    ids=["dtype", "broadcast", "gaps"],
)
def test_a_conversion_on_the_way_is_found(copy) -> None:
    """PyTorch converts into a temporary of its own, which is freed before the GPU has read it."""
    source = torch.arange(4.0)
    keep = copy(source)
    with pytest.raises(RuntimeError, match="converts its source on the CPU first"):
        torch.mps.synchronize()
    del keep


def test_another_layout_waits_as_on_a_mac() -> None:
    source = torch.arange(6.0).view(2, 3)
    with softmps.count() as c:
        x = torch.zeros(3, 2, device="mps").t().copy_(source, non_blocking=True)
    assert c.ops["aten::copy_"].waits == 1
    del source
    torch.mps.synchronize()
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_both_directions_can_be_done_at_once(run_python) -> None:
    done = run_python(
        "import torch, mps_ds.softmps\n"
        "x = torch.ones(2).to('mps', non_blocking=True)\n"
        "print(x.to('cpu', non_blocking=True).tolist(), x.tolist())",
        MPS_DS_SOFT_NON_BLOCKING="0",
    )
    assert done.stdout.strip() == "[1.0, 1.0] [1.0, 1.0]", done.stderr
