"""FusedAdam as a torch.optim.Optimizer: trajectories, groups, step counts, what users change."""

import copy

import adam_reference as reference
import numpy as np
import pytest
import torch
from adam_reference import Options
from torch import nn

from mps_ds.optim import FusedAdam


def make_params(device, shapes=((5, 3), (7,), (), (0, 2), (2, 3, 4, 4)), seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [nn.Parameter(torch.randn(s, generator=generator).to(device)) for s in shapes]


def set_grads(params, seed, skip=()):
    generator = torch.Generator().manual_seed(seed)
    for i, param in enumerate(params):
        grad = torch.randn(param.shape, generator=generator)
        param.grad = None if i in skip else grad.to(param.device)


class Float64Adam:
    """Adam in float64 from the same start: what a trajectory is compared with."""

    def __init__(self, params, **options):
        self.params = [p.detach().cpu().double().numpy() for p in params]
        self.states = [(np.zeros_like(p), np.zeros_like(p)) for p in self.params]
        self.steps = [0] * len(self.params)
        self.options = Options(**options)

    def step(self, params):
        for i, param in enumerate(params):
            if param.grad is not None:
                self.steps[i] += 1
                grad = param.grad.detach().cpu().double().numpy()
                before = reference.Values(self.params[i], *self.states[i])
                after = reference.adam(before, grad, self.steps[i], self.options).values
                self.params[i], self.states[i] = after.param, (after.exp_avg, after.exp_avg_sq)

    def check(self, params):
        """Within one rounding a step of the param, and of its update through the states."""
        for mine, param, steps in zip(self.params, params, self.steps, strict=True):
            got = param.detach().cpu().double().numpy()
            # Rounded states are half an ulp off, so an update, of at most a few lr, is too.
            bound = steps * reference.HALF_ULP * (np.abs(mine) + 2 * 4 * self.options.lr)
            assert (np.abs(got - mine) <= bound).all()


def counts(optimizer, params):
    return [optimizer.state[p]["step"] if p in optimizer.state else None for p in params]


@pytest.mark.parametrize("adam_w_mode", [True, False])
@pytest.mark.parametrize("maximize", [True, False])
def test_a_trajectory(device, adam_w_mode, maximize):
    params = make_params(device)
    options = {"lr": 1e-2, "weight_decay": 0.1, "adam_w_mode": adam_w_mode, "maximize": maximize}
    optimizer, exact = FusedAdam(params, **options), Float64Adam(params, **options)
    for step in range(20):
        set_grads(params, step)
        optimizer.step()
        exact.step(params)
    exact.check(params)


@pytest.mark.parametrize(
    ("adam_w_mode", "peer"), [(True, torch.optim.AdamW), (False, torch.optim.Adam)]
)
def test_drop_in_for_torch_optim(device, adam_w_mode, peer):
    ours, theirs = make_params(device), make_params("cpu")
    kwargs = {"lr": 1e-2, "betas": (0.8, 0.99), "eps": 1e-6, "weight_decay": 0.1}
    optimizers = FusedAdam(ours, **kwargs, adam_w_mode=adam_w_mode), peer(theirs, **kwargs)
    for step in range(10):
        for params, optimizer in zip((ours, theirs), optimizers, strict=True):
            set_grads(params, step)
            optimizer.step()
    for a, b in zip(ours, theirs, strict=True):
        # torch's 1 - beta2 and products are fp32: a few roundings of the update apart.
        torch.testing.assert_close(a.detach().cpu(), b.detach(), rtol=1e-6, atol=1e-6)


def test_params_count_their_own_steps(device):
    params = make_params(device, [(3,), (4,), (5,)])
    optimizer, exact = FusedAdam(params, lr=0.1), Float64Adam(params, lr=0.1, weight_decay=1e-2)
    for step, skip in enumerate([(2,), (1, 2), (), (0, 1, 2), (0,)]):
        set_grads(params, step, skip)
        optimizer.step()
        exact.step(params)
    assert counts(optimizer, params) == [3, 3, 2] == exact.steps
    exact.check(params)


def test_a_param_without_any_gradient_gets_no_state(device):
    params = make_params(device, [(3,), (4,)])
    optimizer = FusedAdam(params)
    set_grads(params, 0, skip=(1,))
    optimizer.step()
    assert params[1] not in optimizer.state
    optimizer.zero_grad()
    optimizer.step()
    assert counts(optimizer, params) == [1, None]


def test_param_groups_have_their_own_options(device):
    params = make_params(device, [(3,), (4,), (5,)])
    options = [{"lr": 0.1}, {"lr": 0.01, "betas": (0.5, 0.9)}, {"lr": 0.2, "maximize": True}]
    optimizer = FusedAdam(
        [{"params": [p], **o} for p, o in zip(params, options, strict=True)], weight_decay=0.3
    )
    exact = []
    for param, o in zip(params, options, strict=True):
        betas = o.get("betas", (0.9, 0.999))
        named = {"lr": o["lr"], "beta1": betas[0], "beta2": betas[1], "maximize": "maximize" in o}
        exact.append(Float64Adam([param], **named, weight_decay=0.3))
    for step in range(5):
        set_grads(params, step)
        optimizer.step()
        for one, param in zip(exact, params, strict=True):
            one.step([param])
    for one, param in zip(exact, params, strict=True):
        one.check([param])


def test_an_empty_group_beside_a_normal_one(device):
    # TransformerEngine#1986
    params = make_params(device, [(3,)])
    optimizer = FusedAdam([{"params": []}, {"params": params}])
    for step in range(3):
        set_grads(params, step)
        optimizer.step()
    again = FusedAdam([{"params": []}, {"params": params}])
    again.load_state_dict(optimizer.state_dict())
    assert counts(again, params) == [3]


def test_a_group_added_later(device):
    params = make_params(device, [(3,), (4,)])
    optimizer = FusedAdam(params[:1], lr=0.1)
    set_grads(params, 0)
    optimizer.step()
    optimizer.add_param_group({"params": params[1:], "lr": 0.2})
    optimizer.step()
    assert counts(optimizer, params) == [2, 1]


def test_the_learning_rate_may_change_between_steps(device):
    params = make_params(device, [(64,)])
    optimizer = FusedAdam(params, lr=0.1, weight_decay=0.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.0)
    set_grads(params, 0)
    optimizer.step()
    scheduler.step()
    before = params[0].detach().clone()
    optimizer.step()
    assert torch.equal(params[0], before)


def test_lr_may_be_a_tensor_on_the_cpu(device):
    a, b = make_params(device), make_params(device)
    for params, lr in ((a, 0.1), (b, torch.tensor(0.1, dtype=torch.float64))):
        optimizer = FusedAdam(params, lr=lr)
        set_grads(params, 0)
        optimizer.step()
    assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_closure(device):
    params = make_params(device, [(3,)])
    optimizer = FusedAdam(params, lr=0.1)

    def closure():
        assert torch.is_grad_enabled()
        optimizer.zero_grad()
        loss = (params[0] ** 2).sum()
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(20)]
    assert losses == sorted(losses, reverse=True)


def test_a_stale_backward_raises(device):
    params = make_params(device, [(3,)])
    optimizer = FusedAdam(params)
    loss = (params[0] ** 2).sum()
    loss.backward(retain_graph=True)
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_versions_of_all_that_is_written(device):
    params = make_params(device, [(3,), (4,)])
    optimizer = FusedAdam(params)
    set_grads(params, 0)
    optimizer.step()
    watched = [
        *params,
        *(optimizer.state[p][k] for p in params for k in ("exp_avg", "exp_avg_sq")),
    ]
    versions = [t._version for t in watched]
    optimizer.step()
    assert all(t._version > v for t, v in zip(watched, versions, strict=True))


@pytest.mark.parametrize(
    "make",
    [
        lambda device: torch.rand(2, 3).to(device).t(),
        lambda device: torch.rand(2, 3, 4, 5).to(device, memory_format=torch.channels_last),
        lambda device: torch.rand(2, 6).to(device)[:, ::2],
    ],
    ids=["transposed", "channels_last", "every other"],
)
def test_params_that_are_not_contiguous(device, make):
    # pytorch#118115, #126585
    torch.manual_seed(0)
    params = [nn.Parameter(make(device))]
    strides = params[0].stride()
    assert not params[0].is_contiguous()
    optimizer, exact = FusedAdam(params, lr=0.1), Float64Adam(params, lr=0.1, weight_decay=1e-2)
    for step in range(3):
        set_grads(params, step)  # contiguous gradients
        optimizer.step()
        exact.step(params)
    exact.check(params)
    assert params[0].stride() == strides


def test_states_are_views_of_few_buffers(device):
    params = make_params(device, [(3,)] * 50)
    optimizer = FusedAdam(params)
    set_grads(params, 0)
    optimizer.step()
    for key in ("exp_avg", "exp_avg_sq"):
        storages = {optimizer.state[p][key].untyped_storage()._cdata for p in params}
        assert len(storages) == 1


def test_a_param_that_moved_is_followed(device):
    params = make_params(device, [(3,), (4,)])
    optimizer, exact = FusedAdam(params, lr=0.1), Float64Adam(params, lr=0.1, weight_decay=1e-2)
    for step in range(4):
        params[step % 2].data = params[step % 2].detach().clone()
        set_grads(params, step)
        optimizer.step()
        exact.step(params)
    exact.check(params)


def test_a_state_that_was_replaced_is_used(device):
    params = make_params(device, [(3,)])
    optimizer = FusedAdam(params, lr=0.1)
    set_grads(params, 0)
    optimizer.step()
    for key in ("exp_avg", "exp_avg_sq"):
        optimizer.state[params[0]][key] = torch.zeros(3, device=device)
    optimizer.state[params[0]]["step"] = 0
    exact = Float64Adam(params, lr=0.1, weight_decay=1e-2)
    optimizer.step()
    exact.step(params)
    exact.check(params)


def test_a_state_that_was_dropped_begins_anew(device):
    params = make_params(device, [(3,)])
    optimizer = FusedAdam(params, lr=0.1)
    set_grads(params, 0)
    optimizer.step()
    optimizer.state.clear()
    exact = Float64Adam(params, lr=0.1, weight_decay=1e-2)
    optimizer.step()
    exact.step(params)
    exact.check(params)


def test_a_param_replaced_within_its_group(device):
    # What mixed-precision wrappers do: group["params"][i] = master copy.
    params = make_params(device, [(3,), (3,)])
    optimizer = FusedAdam(params[:1], lr=0.1)
    set_grads(params, 0)
    optimizer.step()
    optimizer.param_groups[0]["params"][0] = params[1]
    first = params[0].detach().clone()
    optimizer.step()
    assert torch.equal(params[0], first)
    assert counts(optimizer, params) == [1, 1]


@pytest.mark.parametrize("kind", [int, float, torch.tensor])
def test_the_step_count_of_a_state_may_be_any_number(device, kind):
    # pytorch#127197
    results = []
    for convert in (int, kind):
        params = make_params(device, [(3,)])
        optimizer = FusedAdam(params, lr=0.1)
        set_grads(params, 0)
        optimizer.step()
        optimizer.state[params[0]]["step"] = convert(41)
        optimizer.step()
        assert optimizer.state[params[0]]["step"] == 42
        results.append(params[0].detach().cpu())
    assert torch.equal(*results)


def test_zero_grad_does_what_set_grad_none_said(device):
    for set_grad_none in (True, False):
        params = make_params(device, [(3,)])
        optimizer = FusedAdam(params, set_grad_none=set_grad_none)
        set_grads(params, 0)
        optimizer.zero_grad()
        assert (params[0].grad is None) is set_grad_none
        set_grads(params, 0)
        optimizer.zero_grad(set_to_none=False)
        assert not params[0].grad.any()


def test_named_parameters(device):
    model = nn.Linear(3, 2).to(device)
    optimizer = FusedAdam(model.named_parameters())
    model(torch.ones(1, 3, device=device)).sum().backward()
    optimizer.step()
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]


def test_hooks(device):
    params = make_params(device, [(3,)])
    optimizer = FusedAdam(params)
    seen = []
    optimizer.register_step_pre_hook(lambda *_: seen.append("before"))
    optimizer.register_step_post_hook(lambda *_: seen.append("after"))
    optimizer.step()
    assert seen == ["before", "after"]


def test_a_layer_without_elements(device):
    # DeepSpeed#8297
    model = nn.Sequential(nn.Linear(3, 8), nn.Linear(8, 0)).to(device)
    optimizer = FusedAdam(model.parameters())
    model(torch.ones(2, 3, device=device)).sum().backward()
    optimizer.step()
    assert set(counts(optimizer, list(model.parameters()))) == {1}


def test_grad_scaler_skips_the_step_that_overflowed(device):
    params = make_params(device, [(3,)])
    optimizer = FusedAdam(params, lr=0.1)
    scaler = torch.amp.GradScaler(device.type, init_scale=4.0)
    for value, stepped in ((1.0, True), (float("inf"), False)):
        before = params[0].detach().clone()
        optimizer.zero_grad()
        scaler.scale((params[0] * value).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(before, params[0]) is not stepped


@pytest.mark.parametrize("n", [1, 3])
def test_training_falls(device, n):
    torch.manual_seed(n)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
    optimizer = FusedAdam(model.parameters(), lr=1e-2)
    x = torch.randn(32, 8).to(device)
    y = x.sum(1, keepdim=True)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize(("start", "end"), [("mps", "cpu"), ("cpu", "mps")])
def test_a_model_and_its_states_may_change_devices(start, end):
    if not torch.backends.mps.is_available():
        pytest.skip("no mps device in this build")
    params = make_params(start)
    optimizer, exact = FusedAdam(params, lr=0.1), Float64Adam(params, lr=0.1, weight_decay=1e-2)
    set_grads(params, 0)
    optimizer.step()
    exact.step(params)
    for param in params:
        param.data = param.data.to(end)
        param.grad = None
        for state in optimizer.state[param].values():
            if isinstance(state, torch.Tensor):
                state.data = state.data.to(end)
    set_grads(params, 1)
    optimizer.step()
    exact.step(params)
    exact.check(params)


def test_an_emptied_state_begins_anew(device):
    params = make_params(device, [(3,)])
    optimizer = FusedAdam(params, lr=0.1)
    set_grads(params, 0)
    optimizer.step()
    optimizer.state[params[0]].clear()
    optimizer.step()
    assert counts(optimizer, params) == [1]


@pytest.mark.parametrize("change", ["transpose", "shrink", "reshape"])
def test_a_state_changed_in_place_is_noticed(device, change):
    params = make_params(device, [(4, 4)])
    optimizer = FusedAdam(params, lr=0.1)
    set_grads(params, 0)
    optimizer.step()
    mean = optimizer.state[params[0]]["exp_avg"]
    values = mean.clone()
    if change == "transpose":
        expected = FusedAdam(copy.deepcopy(params), lr=0.1)
        expected.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        copies = expected.param_groups[0]["params"]
        expected.state[copies[0]]["exp_avg"] = values.t().contiguous()
        mean.t_()
        set_grads(params, 1)
        set_grads(copies, 1)
        optimizer.step()
        expected.step()
        assert torch.equal(params[0], copies[0])
        return
    if change == "shrink":
        mean.set_(mean.untyped_storage(), 0, (2,), (1,))
    else:
        mean.data = values.view(16)
    with pytest.raises(RuntimeError, match=r"exp_avgs\[0\] has shape"):
        optimizer.step()


def test_a_frozen_param_of_another_kind_is_no_obstacle(device):
    params = make_params(device, [(3,)])
    frozen = nn.Parameter(torch.ones(3, dtype=torch.bfloat16), requires_grad=False)
    optimizer = FusedAdam([*params, frozen])
    set_grads(params, 0)
    optimizer.step()
    assert counts(optimizer, params) == [1]
