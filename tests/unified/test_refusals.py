"""What `cpu_view` and `is_shared` refuse, before anything waits or is written."""

from __future__ import annotations

import sys

import pytest
import torch

from mps_ds import unified
from mps_ds._native import C
from mps_ds.unified import cpu_view, is_shared

if not torch.backends.mps.is_available():
    pytest.skip("no mps device in this build", allow_module_level=True)


def test_a_cpu_tensor() -> None:
    with pytest.raises(ValueError, match="takes a tensor on mps, got one on cpu"):
        cpu_view(torch.ones(3))
    assert not is_shared(torch.ones(3))


def test_what_is_no_tensor() -> None:
    with pytest.raises(TypeError, match=r"expected a torch\.Tensor, got list"):
        cpu_view([1.0])


def test_a_sparse_tensor() -> None:
    with pytest.raises(TypeError, match=r"strided tensor, got one with layout torch\.sparse_coo"):
        cpu_view(torch.eye(3).to_sparse())


def test_a_tensor_that_stands_for_others() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(3, device="mps")
    with pytest.raises(TypeError, match="FakeTensor stands for other tensors"):
        cpu_view(fake)


def test_a_parameter_is_a_plain_tensor() -> None:
    assert cpu_view(torch.nn.Parameter(torch.ones(2, device="mps"))).tolist() == [1, 1]


@pytest.fixture
def private_buffer(monkeypatch):
    """A real private buffer, in the place of that of any tensor."""
    if sys.platform == "darwin":
        pytest.skip("made by the software device")
    from mps_ds import softmetal

    buffer = softmetal.Device().new_buffer_with_length(64, softmetal.STORAGE_PRIVATE)
    monkeypatch.setattr(torch.UntypedStorage, "data_ptr", lambda storage: buffer.object_address)
    return buffer


def test_private_storage(private_buffer) -> None:
    tensor = torch.ones(3, device="mps")
    assert not is_shared(tensor)
    with pytest.raises(RuntimeError, match=r"private storage.*Use tensor\.cpu\(\), which copies"):
        cpu_view(tensor)


def test_the_storage_mode_decides_not_the_version_of_pytorch(private_buffer, monkeypatch) -> None:
    for version in ("2.11.0", "2.13.0"):
        monkeypatch.setattr(torch, "__version__", version)
        with pytest.raises(RuntimeError, match="private storage"):
            cpu_view(torch.ones(3, device="mps"))
    monkeypatch.undo()
    monkeypatch.setattr(torch, "__version__", "2.11.0")
    assert cpu_view(torch.ones(3, device="mps")).tolist() == [1] * 3


def test_the_native_half_refuses_by_itself(private_buffer) -> None:
    with pytest.raises(BufferError, match="a buffer in private storage"):
        C.SharedBytes(None, private_buffer.object_address, 64)
    with pytest.raises(RuntimeError, match="an empty storage has no buffer"):
        C.storage_mode(0)


def test_no_bytes_beyond_the_buffer() -> None:
    tensor = torch.ones(3, device="mps")
    buffer = tensor.untyped_storage().data_ptr()
    for length in (-1, 1 << 40):
        with pytest.raises(BufferError, match="longer than the buffer"):
            C.SharedBytes(tensor, buffer, length)


def test_a_build_without_metal_says_so(monkeypatch) -> None:
    class CpuOnly:
        has_metal = False

    monkeypatch.setattr(unified, "C", CpuOnly)
    with pytest.raises(RuntimeError, match=r"no Metal operations \(MPS_DS_BUILD=cpu\)"):
        is_shared(torch.ones(3))
