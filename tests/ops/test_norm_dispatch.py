"""What norms and scaling cost on the device: dispatches, synchronisations, bytes."""

import math

import pytest
import torch
from norm_reference import DTYPES, on_softmetal, values

from mps_ds.ops import (
    clip_grad_norm_,
    multi_tensor_axpby,
    multi_tensor_l2norm,
    multi_tensor_non_finite,
    multi_tensor_scale,
    multi_tensor_unscale_,
    norm_and_non_finite,
)

pytestmark = on_softmetal

NEVER = ("commits", "waits", "host_reads", "fallback_ops", "fallback_waits")


def counted(function) -> dict:
    """What the device counted while `function` ran; also that it waited for nothing."""
    from mps_ds import softmps

    torch.mps.synchronize()
    softmps.reset_counters()
    function()
    counts = softmps.counters()
    assert {name: counts[name] for name in NEVER} == dict.fromkeys(NEVER, 0)
    return counts


def mixed(count) -> list[torch.Tensor]:
    """Tensors of all types and layouts on mps."""
    tensors = []
    for i in range(count):
        tensor = values((2, 3 + i % 40), DTYPES[i % 3], i).to("mps")
        tensors.append(tensor.t() if i % 7 == 0 else tensor[:, 1:] if i % 5 == 0 else tensor)
    return tensors


@pytest.mark.parametrize("count", [1, 2000])
def test_norms_are_two_dispatches_of_one_encoder(count):
    tensors = mixed(count)
    scale = torch.ones((), device="mps")
    for call in (
        lambda: multi_tensor_l2norm(tensors),
        lambda: multi_tensor_l2norm(tensors, per_tensor=True, norm_type=math.inf),
        lambda: multi_tensor_non_finite(tensors),
        lambda: norm_and_non_finite(
            tensors, list(range(count)), in_norm=[i % 2 for i in range(count)]
        ),
        lambda: torch.ops.mps_ds._grad_norm(tensors, scale, 1.0, 2.0),
    ):
        counts = counted(call)
        assert (counts["dispatches"], counts["encoders"]) == (2, 1)
        assert set(counts["kernels"]) == {"norm_partials", "norm_finish"}


@pytest.mark.parametrize("count", [1, 2000])
def test_scaling_is_one_dispatch(count):
    tensors, outputs = mixed(count), [t.float() for t in mixed(count)]
    found_inf, half = torch.zeros((), device="mps"), torch.tensor(0.5, device="mps")
    for call in (
        lambda: multi_tensor_unscale_(tensors, found_inf, half),
        lambda: multi_tensor_scale(1, found_inf, [tensors, outputs], 0.5),
        lambda: multi_tensor_axpby(1, found_inf, [tensors, tensors, outputs], 0.5, 0.5),
    ):
        counts = counted(call)
        assert (counts["dispatches"], counts["encoders"]) == (1, 1)


def test_clipping_is_three_dispatches():
    params = [torch.nn.Parameter(torch.zeros_like(t)) for t in mixed(100)]
    for param in params:
        param.grad = torch.ones_like(param)
    counts = counted(lambda: clip_grad_norm_(params, 1.0))
    assert counts["dispatches"] == 3
    assert counts["kernels"]["scale"]["dispatches"] == 1


def test_only_error_if_nonfinite_reads_on_the_host():
    from mps_ds import softmps

    param = torch.nn.Parameter(torch.zeros(4, device="mps"))
    param.grad = torch.ones(4, device="mps")
    torch.mps.synchronize()
    softmps.reset_counters()
    clip_grad_norm_([param], 1.0, error_if_nonfinite=True)
    assert softmps.counters()["host_reads"] == 1


def test_no_elements_need_one_dispatch_or_none():
    empty = [torch.empty(0, device="mps")]
    assert counted(lambda: multi_tensor_l2norm(empty))["dispatches"] == 1
    found_inf = torch.zeros((), device="mps")
    assert counted(lambda: multi_tensor_unscale_(empty, found_inf, 0.5))["dispatches"] == 0


def test_every_buffer_is_declared_once():
    views = list(torch.ones(400, device="mps").split(4))
    counts = counted(lambda: multi_tensor_l2norm(views))
    assert counts["use_resource_calls"] == 1
    memory = torch.ones(800, device="mps").split(4)
    found_inf = torch.zeros((), device="mps")
    counts = counted(lambda: multi_tensor_scale(1, found_inf, [memory[::2], memory[1::2]], 2.0))
    assert counts["use_resource_calls"] == 1


def test_few_partials_for_much_data():
    tensors = [torch.ones(5_000_000, device="mps").bfloat16()]
    counts = counted(lambda: multi_tensor_l2norm(tensors))
    assert counts["kernels"]["norm_partials"]["threadgroups"] == math.ceil(5_000_000 / 8192)
    assert counts["kernels"]["norm_finish"]["threadgroups"] == 1


def traced(function):
    """Bytes that kernels moved, by kernel, while `function` ran."""
    from mps_ds import softmetal

    torch.mps.synchronize()
    with softmetal.tracing() as trace:
        function()
        torch.mps.synchronize()
    return trace


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [8192, 20_003])
def test_norms_read_each_byte_once(dtype, size):
    tensors = [values(size, dtype).to("mps") for _ in range(3)]
    least = 3 * size * tensors[0].element_size()
    for call in (multi_tensor_l2norm, multi_tensor_non_finite, norm_and_non_finite):
        declared = traced(lambda call=call: call(tensors)).kernels["norm_partials"].declared
        print(call.__name__, dtype, declared.bytes / (3 * size), "bytes an element")
        assert (declared.bytes_read, declared.bytes_written) == (least, 0)
        in_wide_loads = sum(n * w for w, n in declared.read_widths.items() if w == 16)
        assert in_wide_loads >= least - 3 * 8 * tensors[0].element_size()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_scaling_reads_and_writes_each_byte_once(dtype):
    size = 20_003
    grads = [values(size, dtype).to("mps") for _ in range(3)]
    found_inf = torch.zeros((), device="mps")
    least = 3 * size * grads[0].element_size()
    for factor, written in ((0.5, least), (1.0, 0)):
        trace = traced(lambda factor=factor: multi_tensor_unscale_(grads, found_inf, factor))
        declared = trace.kernels["scale"].declared
        assert (declared.bytes_read, declared.bytes_written) == (least, written)
    factor = torch.ones((), device="mps")
    trace = traced(lambda: torch.ops.mps_ds._multiply_(grads, factor))
    assert trace.kernels["scale"].declared.bytes == 0  # a factor of 1 needs no look at the data


def test_no_threads_race():
    from mps_ds import softmetal

    tensors = mixed(50)
    tensors.append(torch.full((20_000,), math.inf, device="mps"))
    found_inf = torch.zeros((), device="mps")
    with softmetal.changed_settings(fail_on_race=True):
        traced(lambda: multi_tensor_l2norm(tensors, per_tensor=True))
        traced(lambda: multi_tensor_unscale_(tensors, found_inf, 0.5))
    assert found_inf.item() == 1.0


def test_nothing_runs_before_a_commit_and_buffers_outlive_their_tensors():
    tensors = [torch.full((1000,), 2.0, device="mps") for _ in range(20)]
    norm = multi_tensor_l2norm(tensors)
    del tensors
    torch.mps.empty_cache()
    others = [torch.full((1000,), 9.0, device="mps") for _ in range(20)]
    assert norm.item() == pytest.approx(math.sqrt(20_000 * 4))
    assert len(others) == 20


def test_order_with_pytorchs_own_work():
    # kernels#307, kernels-community#1155: launches in a row, between PyTorch's.
    param = torch.nn.Parameter(torch.zeros(4, 4, device="mps"))
    param.grad = torch.full((4, 4), 3.0, device="mps")
    param.grad.mul_(2)
    before = multi_tensor_l2norm([param.grad])
    clip_grad_norm_([param], 12.0)
    multi_tensor_unscale_([param.grad], torch.zeros((), device="mps"), 0.5)
    product = param.grad @ torch.eye(4, device="mps")
    after = multi_tensor_l2norm([product])
    param.grad.zero_()
    assert before.item() == 24.0
    assert after.item() == pytest.approx(6.0, rel=1e-6)
    assert multi_tensor_l2norm([param.grad]).item() == 0.0


def test_many_calls_leave_nothing_behind():
    tensors = mixed(20)
    multi_tensor_l2norm(tensors)
    torch.mps.synchronize()
    before = torch.mps.current_allocated_memory()
    for _ in range(100):
        multi_tensor_l2norm(tensors, per_tensor=True)
        multi_tensor_non_finite(tensors)
    torch.mps.synchronize()
    assert torch.mps.current_allocated_memory() == before
