"""A command buffer that the GPU could not finish, and a GPU that cannot run the kernels."""

from __future__ import annotations

import sys

import pytest
import torch

from mps_ds import ops, unified
from mps_ds._native import C
from mps_ds.optim import FusedAdam
from mps_ds.selftest.explain import explain

if not torch.backends.mps.is_available():
    pytest.skip("no mps device in this build", allow_module_level=True)
if sys.platform == "darwin":
    pytest.skip("no kernel fails on request on a Mac", allow_module_level=True)

OURS = "the GPU failed in a command buffer that holds operations of mps_ds: .*overrun.*checkpoint"


@pytest.fixture
def overrun(monkeypatch):
    """Encodes a kernel that fails. Waiting does not tell, as on a Mac."""
    library = torch.mps.compile_shader(
        "kernel void overrun(device float* x, uint i [[thread_position_in_grid]])"
        "{ x[i + 100000000] = 1; }"
    )
    wait = torch.mps.synchronize
    target = torch.zeros(4, device="mps")  # now: an operator of PyTorch's commits here

    def wait_silently() -> None:
        with pytest.raises(RuntimeError, match="MPS command buffer failed"):
            wait()

    def encode() -> None:
        library.overrun(target)
        monkeypatch.setattr(torch.mps, "synchronize", wait_silently)

    yield encode
    monkeypatch.undo()
    wait()
    C.raise_failure()  # nothing is left for the tests that follow


@pytest.fixture
def x() -> torch.Tensor:
    return torch.ones(4, device="mps")


def test_the_next_operation_tells(overrun, x) -> None:
    ops.multi_tensor_l2norm([x])
    overrun()
    torch.mps.synchronize()
    with pytest.raises(RuntimeError, match=OURS) as told:
        ops.multi_tensor_l2norm([x])
    assert [row.words for row in explain(str(told.value))] == ["the GPU failed in a command buffer"]
    assert ops.multi_tensor_l2norm([x]).item() == 2, "it tells once"


def test_a_view_for_the_cpu_tells(overrun, x) -> None:
    ops.multi_tensor_l2norm([x])
    overrun()
    with pytest.raises(RuntimeError, match=OURS):
        unified.cpu_view(x)


def test_a_step_writes_nothing_after_a_failure(overrun, x) -> None:
    param = torch.nn.Parameter(x)
    param.grad = torch.ones_like(x)
    optimizer = FusedAdam([param], lr=0.5)
    optimizer.step()
    overrun()
    torch.mps.synchronize()
    after_one = param.detach().clone()
    with pytest.raises(RuntimeError, match=OURS):
        optimizer.step()
    assert torch.equal(param, after_one)
    assert optimizer.state[param]["step"] == 1


def test_what_holds_none_of_our_operations_is_not_ours_to_tell(overrun, x) -> None:
    torch.mps.synchronize()
    overrun()
    torch.mps.synchronize()
    assert ops.multi_tensor_l2norm([x]).item() == 2


@pytest.mark.parametrize(("metal3", "tier"), [(True, 1), (False, 2), (False, 1)])
def test_a_gpu_that_cannot_run_the_kernels(metal3: bool, tier: int) -> None:
    words = C.unsupported_device(metal3, tier)
    assert ("no Metal 3" in words) is not metal3
    assert f"tier {tier};" in words
    assert [row.words for row in explain(words)] == ["the kernels need Metal 3"]
    assert C.unsupported_device(True, 2) == ""
