"""What PyTorch refuses on MPS is refused here, with its message."""

from __future__ import annotations

import ctypes
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import mps_ds.softmps as softmps

FLOAT64 = (
    "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. "
    "Please use float32 instead."
)
COMPLEX128 = (
    "Trying to convert ComplexDouble to the MPS backend "
    "but it does not have support for that dtype."
)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(2, dtype=torch.float64, device="mps"),
        lambda: torch.zeros(2, dtype=torch.float64).to("mps"),
        lambda: torch.zeros(2, device="mps").double(),
        lambda: torch.tensor([1.0], device="mps", dtype=torch.float64),
        lambda: torch.zeros(2, device="mps").sum(dtype=torch.float64),
        lambda: nn.Linear(2, 2).to("mps").double(),
        lambda: torch.empty_strided((2,), (1,), dtype=torch.float64, device="mps"),
    ],
)
def test_float64(make) -> None:
    with pytest.raises(TypeError) as error:
        make()
    assert str(error.value) == FLOAT64


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(2, dtype=torch.complex128, device="mps"),
        lambda: torch.zeros(2, dtype=torch.complex128).to("mps"),
    ],
)
def test_complex128(make) -> None:
    with pytest.raises(TypeError) as error:
        make()
    assert str(error.value) == COMPLEX128


def test_a_copy_that_converts_to_float64_on_the_way() -> None:
    x = torch.ones(2, device="mps")
    with pytest.raises(TypeError, match="Cannot convert a float64 Tensor to MPS"):
        x.to("cpu", torch.float64)
    assert x.cpu().double().tolist() == [1, 1]


@pytest.mark.parametrize(
    "use",
    [
        lambda: torch.zeros(2, device="mps:1"),
        lambda: torch.ones(2).to("mps:1"),
        lambda: torch.arange(3, device=torch.device("mps", 2)),
        lambda: torch.accelerator.set_device_index(1),
    ],
)
def test_there_is_one_device(use) -> None:
    with pytest.raises(RuntimeError, match=r"MPS has one device, mps:0, but got mps:[12]"):
        use()
    assert torch.zeros(2, device="mps:0").device.index == 0


TWO_DEVICES = "Expected all tensors to be on the same device, but found at least two devices"


@pytest.mark.parametrize(
    "mix",
    [
        lambda m, c: m + c,
        lambda m, c: c + m,
        lambda m, c: torch.cat([m, c]),
        lambda m, c: F.linear(m.view(1, 3), c.view(1, 3)),
        lambda m, c: torch.mm(m.view(1, 3), c.view(3, 1)),
        lambda m, c: m.add_(c),
        lambda m, c: torch.add(m, m, out=c),
        lambda m, c: c[0].add_(m[0]),  # a 0-dim CPU tensor may be read, not written
        lambda m, c: m[1:].index_add_(0, c[:1].long(), m[:1]),
        lambda m, c: torch._foreach_add([m, m], [c, c]),
    ],
)
def test_mixed_devices(mix) -> None:
    with pytest.raises(RuntimeError, match=TWO_DEVICES):
        mix(torch.ones(3, device="mps"), torch.ones(3))


def test_zero_dimensional_cpu_tensors_count_as_numbers() -> None:
    x = torch.ones(3, device="mps")
    assert (x * torch.tensor(2.0)).tolist() == [2, 2, 2]
    assert x[torch.tensor([0, 2])].tolist() == [1, 1]  # CPU indices are allowed


def test_more_than_16_dimensions() -> None:
    with pytest.raises(
        RuntimeError, match=r"MPS supports tensors with dimensions <= 16, but got 17"
    ):
        torch.zeros([1] * 17, device="mps")


def test_other_layouts_and_pinning() -> None:
    with pytest.raises(NotImplementedError, match="only strided tensors are supported on MPS"):
        torch.ones(2, device="mps").to_sparse()
    with pytest.raises(RuntimeError, match="pinned"):
        torch.zeros(2, device="mps", pin_memory=True)


def test_numpy_needs_a_copy() -> None:
    with pytest.raises(TypeError, match="can't convert mps:0 device type tensor to numpy"):
        torch.ones(2, device="mps").numpy()


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("aten::mode", lambda x: x.mode()),
        ("aten::take", lambda x: x.take(torch.tensor([0], device="mps"))),
        ("aten::linalg_eig", lambda x: torch.linalg.eig(x.view(2, 2))),
        (
            "aten::_ctc_loss",
            lambda x: F.ctc_loss(
                x.view(2, 1, 2).log_softmax(2),
                torch.ones(1, 1, dtype=torch.long, device="mps"),
                torch.tensor([2], device="mps"),
                torch.tensor([1], device="mps"),
            ),
        ),
    ],
)
def test_operators_that_mps_lacks(name, call) -> None:
    x = torch.rand(4, device="mps")
    with pytest.raises(NotImplementedError) as error:
        call(x)
    text = str(error.value)
    assert text.startswith(f"The operator '{name}")
    assert "is not currently implemented for the MPS device" in text
    assert "PYTORCH_ENABLE_MPS_FALLBACK=1" in text


def test_an_extensions_operator_without_an_mps_kernel() -> None:
    library = torch.library.Library("softmps_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    twice = torch.ops.softmps_test.twice
    assert twice(torch.ones(2)).tolist() == [2, 2]
    with pytest.raises(NotImplementedError, match="The operator 'softmps_test::twice' is not"):
        twice(torch.ones(2, device="mps"))
    library.impl("twice", lambda x: x + x, "MPS")
    assert twice(torch.ones(2, device="mps")).tolist() == [2, 2]


def test_the_fallback_variable_turns_the_error_into_a_warning(run_python) -> None:
    code = (
        "import torch, mps_ds.softmps;"
        "print(torch.tensor([1, 2, 2], device='mps').mode().values.item())"
    )
    result = run_python(code, PYTORCH_ENABLE_MPS_FALLBACK="1")
    assert result.stdout.strip() == "2", result.stderr
    assert "will fall back to run on the CPU" in result.stderr


def test_distributed_operators_never_fall_back(run_python) -> None:
    code = """
import tempfile, torch, torch.distributed as dist, mps_ds.softmps
store = dist.FileStore(tempfile.mktemp(), 1)
dist.init_process_group("gloo", store=store, rank=0, world_size=1)
try:
    dist.all_reduce(torch.ones(2, device="mps"))
except NotImplementedError as error:
    print(error)
"""
    result = run_python(code, PYTORCH_ENABLE_MPS_FALLBACK="1")
    assert "The distributed operator 'c10d::allreduce_'" in result.stdout, result.stderr
    assert "distributed operators can not fall back to CPU" in result.stdout


def test_a_data_pointer_read_on_the_host_is_not_the_data() -> None:
    x = torch.full((4,), 1.5, device="mps")
    as_host_memory = (ctypes.c_float * 4).from_address(x.data_ptr())
    assert not any(math.isclose(value, 1.5) for value in as_host_memory)
    info = softmps.buffer_info(x)
    assert x.data_ptr() == info["buffer"] != info["contents"]


def test_the_alias_of_a_storage_does_not_wait() -> None:
    library = torch.mps.compile_shader(
        "kernel void two(device float* x, uint i [[thread_position_in_grid]]) { x[i] = 2; }"
    )
    x = torch.zeros(3, device="mps")
    alias = torch.mps._host_alias_storage(x.untyped_storage())
    view = torch.empty(0).set_(alias, 0, (3,))
    torch.mps.synchronize()
    library.two(x)
    assert view.tolist() == [0, 0, 0]
    torch.mps.synchronize()
    assert view.tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="expected an MPS storage, got device=cpu"):
        torch.mps._host_alias_storage(torch.zeros(3).untyped_storage())
    with pytest.raises(RuntimeError, match=r"expected a torch.UntypedStorage"):
        torch.mps._host_alias_storage(x)


def test_instruments_refuse_cpu_tensors() -> None:
    for instrument in (softmps.host_view, softmps.buffer_info):
        with pytest.raises(RuntimeError, match="expected a tensor on mps, got cpu"):
            instrument(torch.zeros(2))
