"""mps tensors: the CPU works on their memory, after one wait; what it cannot reach is copied."""

import pytest
import torch

import mps_ds.ops.cpu_adam as ops
from mps_ds.ops import _on_host
from mps_ds.ops.cpu_adam import cpu_adam_
from mps_ds.optim import CPUAdam
from mps_ds.unified import is_shared

if not torch.backends.mps.is_available():
    pytest.skip("no mps device in this build", allow_module_level=True)

SHARED = is_shared(torch.ones(1, device="mps"))
needs_shared = pytest.mark.skipif(not SHARED, reason="this PyTorch allocates private storage")
TYPES = [
    (torch.float32, torch.float32),
    (torch.float32, torch.bfloat16),
    (torch.float16, torch.float16),
]


def make(shape=(7, 9), param=torch.float32, grad=torch.float32, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    param_, grad_, mean = (torch.randn(shape, generator=generator) for _ in range(3))
    square = 0.01 * torch.rand(shape, generator=generator)
    return [param_.to(param), grad_.to(grad), 0.1 * mean, square]


def on_mps(tensors):
    return [t.to("mps") for t in tensors]


def step(rows, **more) -> None:
    cpu_adam_(*map(list, zip(*rows, strict=True)), 2, lr=0.1, weight_decay=0.1, **more)


def assert_same(got, want) -> None:
    for a, b in zip(got, want, strict=True):
        assert torch.equal(a.cpu(), b)


@pytest.mark.parametrize("types", TYPES, ids=str)
def test_the_result_is_that_of_cpu_tensors(types):
    rows = [make((7, 9), *types), make((0,), *types), make((1000,), *types)]
    device_rows = [on_mps(row) for row in rows]
    pointers = [[t.data_ptr() for t in row] for row in device_rows]
    step(device_rows)
    step(rows)
    for got, want in zip(device_rows, rows, strict=True):
        assert_same(got, want)
    assert [[t.data_ptr() for t in row] for row in device_rows] == pointers


@pytest.mark.parametrize("where", ["grads", "params", "states"])
def test_host_and_device_tensors_mix(where):
    row, want = make(), make()
    indices = {"params": [0], "grads": [1], "states": [2, 3]}[where]
    for i in indices:
        row[i] = row[i].to("mps")
    step([row])
    step([want])
    assert_same(row, want)


def test_views_and_strides_are_followed():
    row = make((6, 10))
    device_row = [t.to("mps").t()[1:9:2] for t in row]
    row = [t.t()[1:9:2] for t in row]
    step([device_row])
    step([row])
    assert_same(device_row, row)


def test_work_in_flight_is_waited_for():
    # kernels#307: what was encoded before is seen, what comes after sees the step.
    row, want = make(), make()
    device_row = on_mps(row)
    for tensors in (device_row, want):
        tensors[1].mul_(3).add_(tensors[0])
        tensors[0].mul_(0.5)
        step([tensors])
        tensors[0].mul_(2)
        tensors[2] = tensors[2] @ tensors[0].t()
    assert torch.equal(device_row[0].cpu(), want[0])
    torch.testing.assert_close(device_row[2].cpu(), want[2])


def test_the_copy_may_be_on_the_device():
    # A float32 master on the host, its 16-bit copy where the GPU reads it.
    row = make()
    copy = torch.zeros(7, 9, dtype=torch.bfloat16, device="mps")
    step([row], copies=[copy])
    assert torch.equal(copy.cpu(), row[0].bfloat16())


@needs_shared
def test_one_wait_for_any_number_of_tensors(monkeypatch):
    waits = []
    synchronize = torch.mps.synchronize
    monkeypatch.setattr(torch.mps, "synchronize", lambda: waits.append(1) or synchronize())
    step([on_mps(make(seed=i)) for i in range(20)])
    assert len(waits) == 1


@needs_shared
def test_shared_storage_is_not_copied(monkeypatch):
    rows = [on_mps(make(seed=i)) for i in range(3)]

    def refuse(*_, **__):
        raise AssertionError("a copy")

    for name in ("cpu", "to", "copy_", "clone"):
        monkeypatch.setattr(torch.Tensor, name, refuse)
    step(rows)


def test_private_storage_is_copied_there_and_back(monkeypatch):
    monkeypatch.setattr(_on_host, "is_shared", lambda tensor: False)
    monkeypatch.setattr(_on_host, "cpu_views", lambda tensors, writes: [])
    row, want = make(), make()
    device_row = on_mps(row)
    step([device_row])
    step([want])
    assert_same(device_row, want)


def test_nothing_is_copied_back_where_the_step_is_refused(monkeypatch):
    monkeypatch.setattr(_on_host, "is_shared", lambda tensor: False)
    device_row = on_mps(make())
    before = [t.cpu() for t in device_row]
    with pytest.raises(RuntimeError, match="lr is -1"):
        cpu_adam_(*([t] for t in device_row), 1, lr=-1.0)
    assert_same(device_row, before)


def test_a_backward_that_saved_the_param_raises():
    param = torch.nn.Parameter(torch.ones(4, device="mps"))
    loss = (param * param).sum()
    zeros = [torch.zeros(4, device="mps") for _ in range(2)]
    cpu_adam_([param], [torch.ones(4, device="mps")], [zeros[0]], [zeros[1]], 1, lr=0.1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_memory_shared_between_arguments_is_found():
    row = on_mps(make())
    row[2] = row[0]
    with pytest.raises(RuntimeError, match="share memory"):
        step([row])


def test_deepspeeds_update_and_rollback():
    # DeepSpeed#1681
    row, want = make(), make()
    device_row = on_mps(row)
    ops.create_adam(3)
    arguments = (0.1, 0.9, 0.999, 1e-8, 0.0, True)
    for function in (ops.adam_update, ops.adam_rollback):
        function(3, 2, *arguments, *device_row)
        function(3, 2, *arguments, *want)
        assert_same(device_row, want)
    ops.destroy_adam(3)


def test_the_optimizer_keeps_its_states_on_the_host():
    params = [torch.nn.Parameter(make(seed=i)[0].to("mps")) for i in range(3)]
    others = [torch.nn.Parameter(p.detach().cpu()) for p in params]
    optimizer, other = CPUAdam(params, lr=0.1), CPUAdam(others, lr=0.1)
    for count in range(3):
        for param, twin in zip(params, others, strict=True):
            twin.grad = make(seed=count + 10)[1]
            param.grad = twin.grad.to("mps")
        optimizer.step()
        other.step()
    assert_same(params, others)
    assert {t.device.type for s in optimizer.state.values() for t in (s["exp_avg"],)} == {"cpu"}

    again = CPUAdam(params)
    again.load_state_dict(optimizer.state_dict())
    assert again.state[params[0]]["exp_avg"].device.type == "cpu"
    again.step()
    other.step()
    assert_same(params, others)


def test_a_model_trains():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    model.to("mps")
    optimizer = CPUAdam(model.parameters(), lr=1e-2)
    x = torch.randn(64, 8).to("mps")
    y = x.sum(1, keepdim=True).tanh()
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


def test_a_gradient_may_be_freed_at_once():
    # pytorch#189690: its memory is handed out again while the step could still read it.
    params = [torch.nn.Parameter(make(seed=i)[0].to("mps")) for i in range(3)]
    others = [torch.nn.Parameter(p.detach().cpu()) for p in params]
    optimizer, other = CPUAdam(params, lr=0.1), CPUAdam(others, lr=0.1)
    for count in range(3):
        for param, twin in zip(params, others, strict=True):
            twin.grad = make(seed=count + 20)[1] * 3
            param.grad = make(seed=count + 20)[1].to("mps") * 3  # still to be calculated
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        for param in params:
            torch.full_like(param, float("nan"))
        other.step()
    assert_same(params, others)
