"""`cpu_view`: the CPU's view of an mps tensor is the tensor, and its docstring holds.

Sentences that nothing can enforce are shown to fail where they are broken, so that nobody takes
them for a formality.
"""

from __future__ import annotations

import gc
import sys
import weakref

import numpy as np
import pytest
import torch

from mps_ds.unified import cpu_view, is_shared

if not torch.backends.mps.is_available():
    pytest.skip("no mps device in this build", allow_module_level=True)
if not is_shared(torch.ones(1, device="mps")):
    pytest.skip("this PyTorch allocates private storage", allow_module_level=True)

ADD_ONE = """
kernel void add_one(device float* x, uint i [[thread_position_in_grid]]) { x[i] += 1; }
"""
DTYPES = [
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.complex64,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
]


@pytest.fixture(scope="module")
def kernels():
    return torch.mps.compile_shader(ADD_ONE)


def values(dtype: torch.dtype, count: int = 24) -> torch.Tensor:
    return (torch.arange(count) % 5).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_both_sides_see_what_the_other_wrote(dtype: torch.dtype) -> None:
    tensor = values(dtype).to("mps")
    view = cpu_view(tensor)
    assert view.dtype is dtype
    assert view.device.type == "cpu"
    assert torch.equal(view, values(dtype))
    view.copy_(values(dtype).flip(0))
    assert torch.equal(tensor.cpu(), values(dtype).flip(0))


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.reshape(4, 6).t(),
        lambda x: x.reshape(4, 6)[1:3, ::2],
        lambda x: x[5:],
        lambda x: x[::3],
        lambda x: x[:1].expand(4, 3),
        lambda x: x[7],
        lambda x: x.reshape(2, 3, 4).permute(2, 0, 1)[1:],
        lambda x: x.as_strided((3, 3), (2, 1), 2),
    ],
    ids=["transposed", "sliced", "offset", "step", "expanded", "0-dim", "permuted", "overlapping"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8], ids=str)
def test_shape_strides_and_offset_are_those_of_the_tensor(dtype, make) -> None:
    tensor = make(values(dtype).to("mps"))
    view = cpu_view(tensor)
    assert (view.shape, view.stride()) == (tensor.shape, tensor.stride())
    assert view.storage_offset() == tensor.storage_offset()
    assert torch.equal(view, make(values(dtype)))


def test_the_view_of_a_view_reaches_no_further_than_it() -> None:
    whole = torch.zeros(12, device="mps")
    cpu_view(whole[4:8]).fill_(1)
    assert whole.tolist() == [0] * 4 + [1] * 4 + [0] * 4


def test_a_storage_that_ends_within_an_element() -> None:
    """A float32 tensor in 18 bytes: 4 elements and a rest that belongs to none."""
    raw = torch.arange(18, dtype=torch.uint8, device="mps")
    tensor = raw[:16].view(torch.float32)
    assert torch.equal(cpu_view(tensor), tensor.cpu())


def test_conjugate_and_negative_bits() -> None:
    tensor = torch.tensor([1 + 2j, 3 - 4j], device="mps")
    assert torch.equal(cpu_view(tensor.conj()), torch.tensor([1 - 2j, 3 + 4j]))
    assert torch.equal(cpu_view(tensor.conj().imag), torch.tensor([-2.0, 4.0]))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0, 2)])
def test_empty_tensors(shape) -> None:
    view = cpu_view(torch.empty(shape, device="mps"))
    assert view.shape == shape
    assert view.device.type == "cpu"


def test_an_empty_slice_of_a_tensor_that_is_not_empty() -> None:
    tensor = torch.ones(4, device="mps")[2:2]
    view = cpu_view(tensor)
    assert view.shape == (0,)
    assert view.storage_offset() == tensor.storage_offset()


# What the call does: wait.


def test_it_waits_for_what_was_encoded(kernels) -> None:
    tensor = torch.zeros(4, device="mps")
    kernels.add_one(tensor)
    assert cpu_view(tensor).tolist() == [1] * 4


@pytest.mark.skipif(sys.platform == "darwin", reason="looks at the software device's counters")
@pytest.mark.parametrize("shape", [(4,), (0,)])
def test_it_waits_for_a_fresh_tensor_too(kernels, shape) -> None:
    """Its memory may be that of a freed tensor, which pending work still writes."""
    from mps_ds import softmps

    kernels.add_one(torch.zeros(4, device="mps"))
    assert softmps.pending()
    cpu_view(torch.empty(shape, device="mps"))
    assert not softmps.pending()


def test_a_kernel_that_failed_raises() -> None:
    library = torch.mps.compile_shader(
        "kernel void far(device float* x, uint i [[thread_position_in_grid]])"
        "{ x[i + 100000000] = 1; }"
    )
    if sys.platform == "darwin":
        pytest.skip("a Mac's GPU does not report what is out of bounds")
    tensor = torch.zeros(4, device="mps")
    library.far(tensor)
    with pytest.raises(RuntimeError, match="MPS command buffer failed"):
        cpu_view(tensor)


# The rule that is the caller's to keep, broken.


@pytest.mark.skipif(sys.platform == "darwin", reason="on a GPU it is a race: either may be seen")
def test_an_mps_operation_during_the_views_use_is_not_seen(kernels) -> None:
    tensor = torch.zeros(4, device="mps")
    view = cpu_view(tensor)
    kernels.add_one(tensor)
    assert view.tolist() == [0] * 4, "encoded, not run: the view shows what was there"
    assert cpu_view(tensor).tolist() == [1] * 4, "a new view waits"


def test_a_write_between_encoding_and_running_changes_what_the_operation_reads(kernels) -> None:
    if sys.platform == "darwin":
        pytest.skip("on a GPU it is a race: either may be seen")
    tensor = torch.zeros(4, device="mps")
    view = cpu_view(tensor)
    kernels.add_one(tensor)
    view.fill_(5)  # against the rule
    torch.mps.synchronize()
    assert view.tolist() == [6] * 4, "not 5: the kernel ran after the write and on top of it"


def test_a_write_before_an_operation_is_called_is_seen_by_it(kernels) -> None:
    tensor = torch.zeros(4, device="mps")
    cpu_view(tensor).fill_(5)
    kernels.add_one(tensor)
    assert tensor.tolist() == [6] * 4


# Who owns the memory.


def test_the_view_keeps_the_memory() -> None:
    tensor = torch.arange(1000.0, device="mps")
    view = cpu_view(tensor)
    del tensor
    gc.collect()
    others = [torch.full((1000,), -1.0, device="mps") for _ in range(20)]
    assert torch.equal(view, torch.arange(1000.0))
    assert len(others) == 20


@pytest.mark.parametrize("derive", [lambda v: v[10:], lambda v: v.numpy()[10:]])
def test_what_is_made_from_the_view_keeps_it_too(derive) -> None:
    derived = derive(cpu_view(torch.arange(1000.0, device="mps")))
    gc.collect()
    others = [torch.full((1000,), -1.0, device="mps") for _ in range(20)]
    assert np.array_equal(np.asarray(derived), np.arange(10, 1000, dtype=np.float32))
    assert len(others) == 20


@pytest.mark.parametrize("replace", ["data", "set_"])
def test_a_tensor_that_gets_other_data_leaves_the_view_alone(replace) -> None:
    tensor = torch.ones(1000, device="mps")
    view = cpu_view(tensor)
    other = torch.zeros(1000, device="mps")
    if replace == "data":
        tensor.data = other
    else:
        tensor.set_(other)
    others = [torch.full((1000,), -1.0, device="mps") for _ in range(20)]
    view.add_(1)
    assert view.tolist() == [2] * 1000
    assert tensor.tolist() == [0] * 1000, "and the view does not follow it"
    assert len(others) == 20


def test_the_memory_is_returned_when_both_are_gone() -> None:
    before = torch.mps.current_allocated_memory()
    for _ in range(10):
        tensor = torch.zeros(1 << 20, device="mps")
        view = cpu_view(tensor)
        gone = weakref.ref(view)
        del tensor, view
        assert gone() is None
    gc.collect()
    torch.mps.synchronize()
    assert torch.mps.current_allocated_memory() <= before


# Autograd.


@pytest.mark.parametrize("leaf", [True, False])
def test_it_has_no_gradient(leaf) -> None:
    tensor = torch.ones(3, device="mps", requires_grad=True)
    view = cpu_view(tensor if leaf else tensor * 2)
    assert not view.requires_grad
    assert view.grad_fn is None


def test_a_parameter_can_be_written_in_grad_mode() -> None:
    parameter = torch.nn.Parameter(torch.ones(3, device="mps"))
    cpu_view(parameter).mul_(4)
    assert parameter.tolist() == [4] * 3
    assert parameter.requires_grad
    assert parameter.is_leaf


def test_a_stale_backward_raises() -> None:
    weight = torch.ones(3, device="mps", requires_grad=True)
    loss = (weight * weight).sum()
    cpu_view(weight).fill_(7)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_stale_backward_through_another_view_of_the_storage_raises() -> None:
    weight = torch.ones(6, device="mps", requires_grad=True)
    loss = (weight[:3] * weight[:3]).sum()
    cpu_view(weight.detach()[1:2]).fill_(7)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_view_that_only_reads_leaves_backward_alone() -> None:
    weight = torch.full((3,), 2.0, device="mps", requires_grad=True)
    loss = (weight * weight).sum()
    assert cpu_view(weight, writes=False).tolist() == [2] * 3
    loss.backward()
    assert weight.grad.tolist() == [4] * 3


def test_a_write_after_a_later_operation_saved_the_tensor_is_not_seen() -> None:
    """Documented: one view for each time you write."""
    weight = torch.ones(3, device="mps", requires_grad=True)
    view = cpu_view(weight)
    loss = (weight * weight).sum()
    torch.mps.synchronize()
    view.fill_(7)  # against the rule
    loss.backward()
    assert weight.grad.tolist() == [14] * 3, "not 2: backward read what was written"


def test_inference_tensors_have_no_version_and_work() -> None:
    with torch.inference_mode():
        tensor = torch.ones(3, device="mps")
        cpu_view(tensor).fill_(3)
        assert tensor.tolist() == [3] * 3


def test_a_compiled_function_calls_it_outside_of_its_graph() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        cpu_view(x).mul_(2)
        return x

    compiled = torch.compile(double, backend="eager")
    assert compiled(torch.ones(3, device="mps")).tolist() == [2] * 3
