"""Tensors on mps: making them, copying them, writing to them."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

DTYPES = [
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_round_trip_keeps_every_bit(dtype: torch.dtype) -> None:
    original = (torch.arange(12).view(3, 4) % 5).to(dtype)
    on_device = original.to("mps")
    assert on_device.device == torch.device("mps:0")
    assert on_device.dtype == dtype
    assert torch.equal(on_device.cpu(), original)


def test_factories() -> None:
    x = torch.ones(2, 3, device="mps")
    made = {
        "zeros": (torch.zeros(3, device="mps"), torch.zeros(3)),
        "full": (torch.full((2,), 1.5, device="mps"), torch.full((2,), 1.5)),
        "arange": (torch.arange(1, 8, 2, device="mps"), torch.arange(1, 8, 2)),
        "linspace": (torch.linspace(0, 1, 5, device="mps"), torch.linspace(0, 1, 5)),
        "eye": (torch.eye(3, device="mps"), torch.eye(3)),
        "tensor": (torch.tensor([[1, 2]], device="mps"), torch.tensor([[1, 2]])),
        "ones_like": (torch.ones_like(x), torch.ones(2, 3)),
        "new_full": (x.new_full((2,), 7), torch.full((2,), 7.0)),
        "tril_indices": (torch.tril_indices(3, 3, device="mps"), torch.tril_indices(3, 3)),
    }
    for name, (on_mps, on_cpu) in made.items():
        assert on_mps.device.type == "mps", name
        assert on_mps.dtype == on_cpu.dtype, name
        assert torch.equal(on_mps.cpu(), on_cpu), name


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2)])
def test_empty_tensors_have_no_buffer(shape: tuple[int, ...]) -> None:
    x = torch.empty(shape, device="mps")
    assert x.data_ptr() == 0
    assert (x + 1).shape == shape
    assert x.cpu().shape == shape


def test_memory_that_was_never_written_is_not_zero() -> None:
    assert torch.empty(1000, device="mps").isnan().all()
    assert (torch.empty(1000, dtype=torch.int32, device="mps") == -1).all()


def test_deterministic_mode_fills_uninitialised_memory() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        filled = torch.empty(4, dtype=torch.int32, device="mps")
    finally:
        torch.use_deterministic_algorithms(False)
    assert (filled == torch.iinfo(torch.int32).max).all()


def test_in_place_operations_keep_the_tensor_and_its_memory() -> None:
    x = torch.arange(6.0, device="mps")
    address = x.data_ptr()
    assert x.add_(1) is x
    assert x.mul_(2).sub_(1).clamp_(max=9) is x
    assert x.zero_() is x
    assert x.data_ptr() == address


def write_everywhere(x: Tensor) -> Tensor:
    x[0].mul_(2)
    x[:, 1, ::2] = 7
    x.view(-1)[3:9].add_(1)
    x[x > 20] = -1
    x[0, [0, 2]] = 5
    x.transpose_(0, 1)
    x.unsqueeze_(0)
    return x


def test_writes_through_slices_masks_and_indices() -> None:
    x = torch.arange(24.0).view(2, 3, 4)
    actual, expected = write_everywhere(x.to("mps")), write_everywhere(x.clone())
    assert actual.stride() == expected.stride()
    assert torch.equal(actual.cpu(), expected)


def test_out_arguments_are_written_and_resized() -> None:
    a, b = torch.ones(3, 4, device="mps"), torch.ones(4, 5, device="mps")
    right = torch.empty(3, 5, device="mps")
    address = right.data_ptr()
    assert torch.mm(a, b, out=right) is right
    assert right.data_ptr() == address
    empty = torch.empty(0, device="mps")
    torch.mm(a, b, out=empty)
    assert torch.equal(empty.cpu(), torch.full((3, 5), 4.0))
    values = torch.empty(0, device="mps")
    indices = torch.empty(0, dtype=torch.long, device="mps")
    torch.sort(torch.tensor([3.0, 1, 2], device="mps"), out=(values, indices))
    assert values.tolist() == [1, 2, 3]
    assert indices.tolist() == [1, 2, 0]


def test_copies_between_layouts_and_types() -> None:
    source = torch.arange(12.0).view(3, 4)
    for cpu in (source, source.t(), source[:, ::2], source[1:]):
        on_mps = cpu.to("mps")
        target = torch.zeros(cpu.shape, dtype=torch.float16, device="mps")
        target.copy_(cpu)
        back = torch.zeros_like(cpu).copy_(on_mps)
        assert torch.equal(back, cpu)
        assert torch.equal(target.cpu(), cpu.half())


def test_data_of_a_parameter_can_move_between_devices() -> None:
    p = nn.Parameter(torch.ones(3))
    p.data = p.data.to("mps")
    assert p.device.type == "mps"
    p.data = torch.empty(0, device="mps")
    assert p.numel() == 0


def test_module_to_and_back() -> None:
    m = nn.Linear(3, 4)
    expected = {k: v.clone() for k, v in m.state_dict().items()}
    m.to("mps").half().float().cpu()
    for name, value in m.state_dict().items():
        assert torch.equal(value, expected[name].half().float())


def test_deepcopy_is_independent() -> None:
    base = torch.arange(4.0, device="mps").requires_grad_()
    copied = copy.deepcopy({"all": base, "module": nn.Linear(2, 2).to("mps")})
    copied["all"].data[1] = 9
    assert base.tolist() == [0, 1, 2, 3]
    assert copied["all"].requires_grad
    assert copied["module"].weight.device.type == "mps"


def test_pickle() -> None:
    x = torch.arange(4.0, device="mps").requires_grad_()
    again = pickle.loads(pickle.dumps(x))
    assert again.device.type == "mps"
    assert again.requires_grad
    assert torch.equal(again.detach().cpu(), x.detach().cpu())


def test_printing_shows_values_and_device() -> None:
    assert repr(torch.arange(3, device="mps")) == "tensor([0, 1, 2], device='mps:0')"


def test_complex_conjugate_and_negative_views_are_resolved() -> None:
    z = torch.tensor([1 + 2j, 3 - 1j])
    on_mps = z.to("mps").conj()
    assert torch.equal(on_mps.cpu(), z.conj())
    assert torch.equal(on_mps.imag.cpu(), z.conj().imag)
    assert torch.equal((on_mps * 2).cpu(), z.conj() * 2)
