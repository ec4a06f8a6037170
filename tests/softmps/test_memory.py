"""Memory figures, limits, and that nothing leaks."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

import pytest
import torch

MIB = 1 << 20


def test_a_tensor_counts_while_it_lives() -> None:
    before = torch.mps.current_allocated_memory()
    x = torch.empty(MIB, device="mps")
    assert torch.mps.current_allocated_memory() - before == 4 * MIB
    view = x[5:]
    del x
    assert torch.mps.current_allocated_memory() - before == 4 * MIB  # the view keeps it
    del view
    assert torch.mps.current_allocated_memory() == before


def test_driver_memory_falls_with_the_cache() -> None:
    x = torch.empty(MIB, device="mps")
    del x
    assert torch.mps.driver_allocated_memory() >= torch.mps.current_allocated_memory() + 4 * MIB
    torch.mps.empty_cache()
    assert torch.mps.driver_allocated_memory() == torch.mps.current_allocated_memory()


def test_the_recommended_maximum_is_a_part_of_the_machine() -> None:
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert machine // 2 <= torch.mps.recommended_max_memory() < machine


def test_a_limit_raises_out_of_memory_and_the_device_stays_usable() -> None:
    used = torch.mps.current_allocated_memory()
    fraction = (used + 64 * MIB) / torch.mps.recommended_max_memory()
    torch.mps.set_per_process_memory_fraction(fraction)
    try:
        fits = torch.empty(32 * MIB, dtype=torch.uint8, device="mps")
        with pytest.raises(RuntimeError, match=r"MPS backend out of memory \(MPS allocated: ") as e:
            torch.empty(40 * MIB, dtype=torch.uint8, device="mps")
        assert "Tried to allocate 40.00 MiB on shared pool" in str(e.value)
        assert "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0" in str(e.value)
        with pytest.raises(RuntimeError, match="out of memory"):
            torch.cat([fits, fits])  # a result that an operator makes counts too
        assert (fits[:4] * 0 == 0).all()
    finally:
        torch.mps.set_per_process_memory_fraction(0.0)


def test_more_than_the_device_can_hold_in_one_buffer() -> None:
    with pytest.raises(RuntimeError, match=r"Invalid buffer size: [\d.]+ GiB"):
        torch.empty(1 << 50, dtype=torch.uint8, device="mps")


@pytest.mark.parametrize(("fraction", "kind"), [(1, TypeError), (-0.5, ValueError)])
def test_wrong_fractions(fraction: float, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        torch.mps.set_per_process_memory_fraction(fraction)


TRAIN = """
import gc, os, torch, mps_ds.softmps
from torch import nn

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def figures():
    torch.mps.synchronize()
    gc.collect()
    return torch.mps.current_allocated_memory(), len(os.listdir("/proc/self/fd")), resident()

def train(steps):
    for _ in range(steps):
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kernels.add_a_little(x)

start = figures()[0]
model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)).to("mps")
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn(16, 64, device="mps")
kernels = torch.mps.compile_shader(
    "kernel void add_a_little(device float* x, uint i [[thread_position_in_grid]])"
    "{ x[i] += 1e-6f; }"
)
train(300)  # freed blocks rest before they are used again
before = figures()
train(int(os.environ["STEPS"]))
after = figures()
del model, optimizer, x
print(*(b - a for a, b in zip(before, after)), figures()[0] - start)
"""


@pytest.mark.parametrize("steps", [200, pytest.param(1000, marks=pytest.mark.slow)])
def test_steps_leak_nothing(
    run_python: Callable[..., subprocess.CompletedProcess[str]], steps: int
) -> None:
    # In a process of its own: what other tests leave behind moves the resident memory of this one.
    done = run_python(TRAIN, STEPS=str(steps))
    assert done.returncode == 0, done.stderr
    allocated, descriptors, resident, left = map(int, done.stdout.split())
    assert (allocated, descriptors, left) == (0, 0, 0)
    assert resident < 2 * MIB  # one leaked activation a step would be 3 MB or more


def test_thousands_of_tensors_cost_no_descriptor_each() -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    many = [torch.ones(4, device="mps") for _ in range(5000)]
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert torch.stack(many).sum().item() == 20000


RECYCLED = """
import torch, mps_ds.softmps as softmps
library = torch.mps.compile_shader(
    "kernel void fill(device float* x, uint i [[thread_position_in_grid]]) { x[i] = 7; }")
x = torch.zeros(1000, device="mps")
library.fill(x)                             # pending
del x
fresh = torch.empty(1000, device="mps")     # may get the same block
softmps.host_view(fresh, wait=False).fill_(1)   # a host write that does not wait
print(fresh.unique().tolist())
"""


@pytest.mark.parametrize(("recycle", "left"), [("0", "[1.0]"), ("1", "[7.0]")])
def test_recycled_blocks_show_a_host_write_that_did_not_wait(run_python, recycle, left) -> None:
    result = run_python(RECYCLED, MPS_DS_SOFT_RECYCLE=recycle)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == left
