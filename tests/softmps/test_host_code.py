"""A native extension for a Mac on the stand-in: PyTorch's functions, bindless buffers, misuse."""

from __future__ import annotations

import time

import pytest
import torch
from mps_ds.softmps._C import host_code

import mps_ds.softmps as softmps


def buffer_of(x: torch.Tensor) -> int:
    return x.untyped_storage().data_ptr()


def now(x: torch.Tensor) -> list[float]:
    return softmps.host_view(x, wait=False).unique().tolist()


def becomes(x: torch.Tensor, value: float) -> bool:
    """Whether the device gets there by itself; a commit is enough, nobody waits."""
    deadline = time.monotonic() + 10
    while now(x) != [value] and time.monotonic() < deadline:
        time.sleep(0.001)
    return now(x) == [value]


def test_pytorchs_functions() -> None:
    x = torch.zeros(8, device="mps")
    assert host_code.is_available()
    host_code.add_one_bindless(buffer_of(x), 8)
    assert now(x) == [0]
    host_code.commit()
    assert becomes(x, 1)
    host_code.add_one_bindless(buffer_of(x), 8)
    host_code.commit_inside_the_queue()
    assert becomes(x, 2)
    host_code.add_one_bindless(buffer_of(x), 8)
    host_code.synchronize()
    assert now(x) == [3]


def test_own_kernels_and_compile_shader_keep_their_order() -> None:
    library = torch.mps.compile_shader(
        "kernel void double_it(device float* x, uint i [[thread_position_in_grid]]) { x[i] *= 2; }"
    )
    x = torch.zeros(8, device="mps")
    host_code.add_one_bindless(buffer_of(x), 8)  # 1
    library.double_it(x)  # 2
    host_code.add_one_bindless(buffer_of(x), 8)  # 3; ends PyTorch's open encoder
    library.double_it(x)  # 6
    x.add_(1)  # 7, on the CPU
    host_code.add_one_bindless(buffer_of(x), 8)  # 8
    assert x.unique().tolist() == [8]


def test_a_buffer_known_by_address_only_must_be_declared() -> None:
    x = torch.zeros(8, device="mps")
    host_code.add_one_bindless(buffer_of(x), 8, declare=False)
    with pytest.raises(RuntimeError, match=r"add_one_bindless.*useResource"):
        torch.mps.synchronize()
    assert x.unique().tolist() == [0]


def test_results_of_operators_need_declaring_too() -> None:
    x = torch.zeros(8, device="mps") + 0  # memory that a CPU kernel allocated
    view = softmps.host_view(x)
    host_code.add_one_bindless(buffer_of(x), 8, declare=False)
    with pytest.raises(RuntimeError, match="useResource"):
        torch.mps.synchronize()
    assert view.unique().tolist() == [0]


def test_declaring_does_not_keep_a_buffer_alive() -> None:
    x = torch.zeros(8, device="mps")
    host_code.add_one_bindless(buffer_of(x), 8, keep=False)
    del x  # before the work has run: on a Mac its memory may be another tensor's by then
    with pytest.raises(RuntimeError, match=r"add_one_bindless|released"):
        torch.mps.synchronize()


def test_a_buffer_that_is_kept_outlives_its_tensor() -> None:
    x = torch.zeros(8, device="mps")
    host_code.add_one_bindless(buffer_of(x), 8, keep=True)
    del x
    torch.mps.synchronize()
    assert torch.mps.current_allocated_memory() >= 0


@pytest.mark.parametrize(
    ("misuse", "message"),
    [("leave_encoder_open", "endEncoding"), ("commit_pytorchs_buffer", "commit")],
)
def test_misuse_of_pytorchs_command_buffer(misuse: str, message: str) -> None:
    x = torch.zeros(8, device="mps")
    getattr(host_code, misuse)()
    with pytest.raises(RuntimeError, match=message):
        torch.mps.synchronize()
    host_code.add_one_bindless(buffer_of(x), 8)  # the stream goes on with a fresh one
    assert x.unique().tolist() == [1]


def test_misuse_of_the_dispatch_queue() -> None:
    with pytest.raises(IndexError, match="thrown inside the block"):
        host_code.throw_carried()
    with pytest.raises(RuntimeError, match="dispatch_sync"):
        host_code.sync_inside_the_queue()
    assert torch.ones(2, device="mps").sum().item() == 2
