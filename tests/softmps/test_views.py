"""Views share memory, resize_ and set_ move it, as on a Mac."""

from __future__ import annotations

import torch

import mps_ds.softmps as softmps


def test_views_share_a_buffer_and_a_version() -> None:
    base = torch.zeros(4, 6, device="mps")
    views = [base[1:], base.t(), base.view(24), base[:, ::2], base.unfold(1, 2, 1), base.detach()]
    buffer = softmps.buffer_info(base)["buffer"]
    for view in views:
        assert softmps.buffer_info(view)["buffer"] == buffer
        assert view._version == base._version
    base.unfold(1, 3, 3).fill_(5)
    assert (base == 5).all()
    assert views[1]._version == base._version == 1


def test_addresses_are_the_buffer_plus_the_byte_offset() -> None:
    base = torch.zeros(100, device="mps")
    assert base.untyped_storage().data_ptr() == softmps.buffer_info(base)["buffer"]
    assert base[7:].data_ptr() == base.data_ptr() + 28
    assert base.half().view(torch.int16)[3:].storage_offset() == 3


def test_view_as_real_and_view_as_another_type() -> None:
    z = torch.zeros(3, dtype=torch.complex64, device="mps")
    torch.view_as_real(z)[:, 1] = 2
    assert z.tolist() == [2j, 2j, 2j]
    ones = torch.ones(2, device="mps")
    assert ones.view(torch.int32).tolist() == [0x3F800000] * 2


def test_as_strided_overlaps() -> None:
    base = torch.arange(6.0, device="mps")
    assert base.as_strided((3, 2), (1, 1), 1).tolist() == [[1, 2], [2, 3], [3, 4]]


def test_growing_moves_the_memory_and_keeps_the_contents() -> None:
    x = torch.arange(3.0, device="mps")
    before = x.data_ptr()
    other = x.view(3)
    x.resize_(10)
    assert x.data_ptr() != before
    assert x[:3].tolist() == [0, 1, 2]
    assert other.data_ptr() == x.data_ptr()  # one storage
    x.resize_(2)
    assert x.tolist() == [0, 1]


def test_set_shares_another_storage() -> None:
    source = torch.arange(6.0, device="mps")
    x = torch.empty(0, device="mps")
    x.set_(source.untyped_storage(), 2, (2, 2), (2, 1))
    x.mul_(10)
    assert source.tolist() == [0, 1, 20, 30, 40, 50]
    x.set_(source)
    assert x.shape == (6,)
    x.set_()
    assert x.numel() == 0


def test_storage_identity_survives_the_fallback() -> None:
    base = torch.zeros(4, device="mps")
    flat = [base[:2], base[2:]]
    torch._foreach_add_(flat, 1)
    assert base.tolist() == [1, 1, 1, 1]
    assert flat[0].untyped_storage().data_ptr() == base.untyped_storage().data_ptr()


def test_storage_of_bytes_and_sizes() -> None:
    storage = torch.UntypedStorage(12, device="mps")
    assert storage.device == torch.device("mps:0")
    assert storage.nbytes() == 12
    x = torch.tensor([], device="mps").set_(storage, 0, (3,))
    x.fill_(1)
    assert storage.cpu().nbytes() == 12
    assert torch.ones(3).untyped_storage().mps().device.type == "mps"
