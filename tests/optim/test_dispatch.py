"""What a step costs on the device: dispatches, encoders, and no synchronisation. Counted by the
software device."""

import gc
import sys

import pytest
import torch
from torch import nn

from mps_ds.ops import adam_
from mps_ds.optim import FusedAdam

pytestmark = pytest.mark.skipif(
    sys.platform == "darwin" or not torch.backends.mps.is_available(),
    reason="a Mac's device does not count",
)

NEVER_IN_A_STEP = ("commits", "waits", "host_reads", "fallback_ops", "fallback_waits")


@pytest.fixture
def count():
    """Calls a function; returns what the device counted meanwhile."""
    from mps_ds import softmps

    def run(function):
        torch.mps.synchronize()
        softmps.reset_counters()
        function()
        return softmps.counters()

    return run


def make(count, size=4, **options):
    params = [nn.Parameter(torch.ones(size, device="mps")) for _ in range(count)]
    for param in params:
        param.grad = torch.ones(size, device="mps")
    optimizer = FusedAdam(params, **options)
    optimizer.step()  # states are made at the first
    return params, optimizer


def test_a_step_over_2000_tensors_is_one_dispatch_and_synchronises_nothing(count):
    _, optimizer = make(2000)
    counted = count(optimizer.step)
    print({k: v for k, v in counted.items() if k != "kernels"})
    assert counted["dispatches"] == counted["encoders"] == 1
    assert {name: counted[name] for name in NEVER_IN_A_STEP} == dict.fromkeys(NEVER_IN_A_STEP, 0)
    assert counted["kernels"]["adam"]["threadgroups"] == 2000


def test_the_first_step_too_makes_one_dispatch(count):
    params = [nn.Parameter(torch.ones(4, device="mps")) for _ in range(50)]
    for param in params:
        param.grad = torch.ones(4, device="mps")
    counted = count(FusedAdam(params).step)
    assert counted["dispatches"] == counted["encoders"] == 1


def test_groups_step_counts_and_layouts_share_the_dispatch(count):
    params, _ = make(3)
    params.append(nn.Parameter(torch.ones(4, 6, device="mps").t()))
    params[-1].grad = torch.ones(6, 4, device="mps")
    optimizer = FusedAdam([{"params": [p], "lr": 0.1 * i} for i, p in enumerate(params)])
    optimizer.step()
    params[0].grad = None
    optimizer.step()
    params[0].grad = torch.ones(4, device="mps")
    counted = count(optimizer.step)
    assert counted["dispatches"] == counted["encoders"] == 1
    assert set(counted["kernels"]) == {"adam"}


def test_one_dispatch_more_for_each_further_combination_of_types(count):
    dtypes = (torch.float32, torch.bfloat16, torch.float16)
    params = [nn.Parameter(torch.ones(4, device="mps", dtype=d)) for d in dtypes for _ in range(9)]
    for param in params:
        param.grad = torch.ones_like(param)
    optimizer = FusedAdam([{"params": params[:20]}, {"params": params[20:], "amsgrad": True}])
    optimizer.step()
    counted = count(optimizer.step)
    # float32, bfloat16, float16, and float16 with amsgrad
    assert counted["dispatches"] == 4
    assert counted["encoders"] == 1


def test_step_counts_on_the_device_cost_no_dispatch(count):
    _, optimizer = make(30, capturable=True)
    counted = count(optimizer.step)
    assert counted["dispatches"] == counted["encoders"] == 1
    assert {name: counted[name] for name in NEVER_IN_A_STEP} == dict.fromkeys(NEVER_IN_A_STEP, 0)


def test_a_step_with_scaler_and_clipping_is_three_dispatches(count):
    params, optimizer = make(200)
    scaler = torch.amp.GradScaler("mps")
    scaler.scale(torch.ones((), device="mps"))

    def step():
        optimizer.step(scaler=scaler, max_norm=1.0)

    step()
    scaler.update()
    counted = count(step)
    assert counted["dispatches"] == 3  # partial norms, their finish, Adam
    assert {name: counted[name] for name in NEVER_IN_A_STEP} == dict.fromkeys(NEVER_IN_A_STEP, 0)
    assert len(params) == 200


def test_a_step_without_gradients_encodes_nothing(count):
    _, optimizer = make(3)
    optimizer.zero_grad()
    counted = count(optimizer.step)
    assert counted["dispatches"] == counted["encoders"] == 0


def test_every_buffer_is_declared_once(count):
    flat = [torch.ones(400, device="mps") for _ in range(4)]
    lists = [list(t.split(4)) for t in flat]
    counted = count(lambda: adam_(*lists, 1, lr=0.1))
    assert counted["use_resource_calls"] == 4
    # One buffer for all of it, read and written.
    views = torch.ones(1600, device="mps").split(4)
    counted = count(lambda: adam_(*(views[i::4] for i in range(4)), 1, lr=0.1))
    assert counted["use_resource_calls"] == 1


def test_states_in_few_buffers_spare_declarations(count):
    _, optimizer = make(100)
    counted = count(optimizer.step)
    assert counted["use_resource_calls"] == 2 * 100 + 2


def test_nothing_runs_before_a_commit():
    from mps_ds import softmps

    params, optimizer = make(1, lr=0.5, weight_decay=0.0)
    torch.mps.synchronize()
    before = params[0].detach().cpu()
    optimizer.step()
    stale = softmps.host_view(params[0].detach(), wait=False).clone()
    assert torch.equal(stale, before)
    torch.mps.synchronize()
    assert not torch.equal(params[0].detach().cpu(), before)


def test_what_was_freed_before_the_commit_is_kept_for_the_gpu():
    # pytorch's allocator may release a buffer that only a table names.
    expected, optimizer = make(20)
    optimizer.step()
    expected = [p.detach().cpu() for p in expected]

    params, optimizer = make(20)
    optimizer.step()
    copies = [p.detach() for p in params]
    for param in params:
        param.grad = None
    del params, optimizer, param
    gc.collect()
    torch.mps.empty_cache()
    overwriting = [torch.full((4,), 9.0, device="mps") for _ in range(100)]
    for copy, value in zip(copies, expected, strict=True):
        assert torch.equal(copy.cpu(), value)
    assert len(overwriting) == 100


def test_steps_between_commits_use_their_own_numbers_and_gradients():
    trajectories = []
    for synchronise in (True, False):
        params, optimizer = make(5)
        for step in range(4):
            optimizer.param_groups[0]["lr"] = 0.1 * (step + 1)
            for param in params:
                param.grad = torch.full((4,), float(step), device="mps")
            if synchronise:
                torch.mps.synchronize()
            optimizer.step()
        trajectories.append([p.detach().cpu() for p in params])
    for a, b in zip(*trajectories, strict=True):
        assert torch.equal(a, b)


def test_order_with_pytorchs_own_work():
    # kernels#307, kernels-community#1155
    params, optimizer = make(1, size=16, lr=0.5, weight_decay=0.0)
    weights = params[0].detach()
    optimizer.step()
    optimizer.step()
    product = weights.view(4, 4) @ torch.eye(4, device="mps")
    optimizer.step()
    assert product.cpu().flatten()[0].item() == pytest.approx(1 - 3 * 0.5, abs=1e-5)
    assert weights.clone().cpu()[0].item() == pytest.approx(1 - 4 * 0.5, abs=1e-5)


def test_many_steps_leave_nothing_behind():
    params, optimizer = make(20)
    torch.mps.synchronize()
    gc.collect()
    before = torch.mps.current_allocated_memory()
    for _ in range(200):
        optimizer.step()
    torch.mps.synchronize()
    gc.collect()
    assert torch.mps.current_allocated_memory() == before
    del params, optimizer
