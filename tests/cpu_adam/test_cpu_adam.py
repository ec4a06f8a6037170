"""CPUAdam: the optimizer as torch and DeepSpeed use it."""

import inspect
import threading

import pytest
import torch
from adam_plain_reference import assert_bounded, plain_step
from adam_reference import Options
from cpu_adam_helpers import (
    BF16,
    F16,
    F32,
    assert_same,
    clones,
    make_params,
    set_grads,
    train,
    values,
)

from mps_ds.ops.cpu_adam import cpu_adam_
from mps_ds.optim import CPUAdam


@pytest.mark.parametrize("adamw_mode", [True, False])
@pytest.mark.parametrize("fp32_states", [True, False])
@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
def test_steps_are_those_of_the_operation(dtype, fp32_states, adamw_mode):
    params = make_params([(3, 5), (), (1000,), (0,)], dtype)
    options = {"lr": 1e-2, "weight_decay": 0.1, "eps": 1e-6}
    optimizer = CPUAdam(params, adamw_mode=adamw_mode, fp32_optimizer_states=fp32_states, **options)
    want = values(params)
    state_type = F32 if fp32_states else dtype
    means, squares = ([torch.zeros_like(p, dtype=state_type) for p in want] for _ in range(2))
    for step in range(1, 4):
        set_grads(params, step)
        optimizer.step()
        grads = [p.grad for p in params]
        cpu_adam_(want, grads, means, squares, step, adam_w_mode=adamw_mode, **options)
    assert_same(params, want)
    assert optimizer.state[params[0]]["exp_avg"].dtype == state_type
    assert_same([optimizer.state[p]["exp_avg_sq"] for p in params], squares)


def test_a_first_step_equals_float64():
    params = make_params([(1000,)])
    set_grads(params, 0)
    before = [params[0].detach().clone(), params[0].grad, *(torch.zeros(1000) for _ in range(2))]
    CPUAdam(params, lr=0.1, weight_decay=0.01).step()
    assert_bounded(params[0], plain_step(before, 1, Options(lr=0.1, weight_decay=0.01))[0], "param")


def test_groups_have_options_of_their_own():
    params = make_params([(10,), (11,), (12,)])
    alone = [torch.nn.Parameter(p.detach().clone()) for p in params]
    options = [
        {"lr": 0.1},
        {"lr": 0.01, "betas": (0.5, 0.9), "weight_decay": 0.2},
        {"amsgrad": True},
    ]
    together = CPUAdam([{"params": [p], **o} for p, o in zip(params, options, strict=True)])
    each = [CPUAdam([p], **o) for p, o in zip(alone, options, strict=True)]
    for step in range(4):
        set_grads(params, step)
        set_grads(alone, step)
        together.step()
        for optimizer in each:
            optimizer.step()
    assert_same(params, alone)
    assert "max_exp_avg_sq" in together.state[params[2]]
    assert "max_exp_avg_sq" not in together.state[params[0]]


def test_a_param_counts_its_own_steps():
    # DeepSpeed#8471: p2 has no gradient in step 2.
    params = [*make_params([(20,)]), *make_params([(20,)], BF16)]
    optimizer = CPUAdam(params, lr=0.1)
    want = values(params)
    means, squares = ([torch.zeros(20) for _ in params] for _ in range(2))
    counts = [0, 0]
    for step in range(3):
        set_grads(params, step)
        if step == 1:
            params[1].grad = None
        optimizer.step()
        for i, param in enumerate(params):
            if param.grad is not None:
                counts[i] += 1
                cpu_adam_([want[i]], [param.grad], [means[i]], [squares[i]], counts[i], lr=0.1)
    assert_same(params, want)
    assert [optimizer.state[p]["step"] for p in params] == [3, 2]


@pytest.mark.parametrize("adamw_mode", [True, False])
def test_weight_decay_is_where_it_belongs(adamw_mode):
    # DeepSpeed#668, FlagGems#4988
    params = make_params([(100,)])
    set_grads(params, 0)
    grad = params[0].grad.double() + (0 if adamw_mode else 0.1 * params[0].detach().double())
    optimizer = CPUAdam(params, weight_decay=0.1, adamw_mode=adamw_mode)
    optimizer.step()
    got = optimizer.state[params[0]]["exp_avg"].double()
    # Two constants, and at most four operations, of half an ulp each.
    torch.testing.assert_close(got, 0.1 * grad, rtol=6 * 2**-24, atol=1e-8)


def test_a_gradient_of_0_leaves_float16_as_it_is():
    # optax#1754: eps 1e-8 is 0 in float16.
    params = make_params([(50,)], F16)
    before = values(params)
    params[0].grad = torch.zeros(50, dtype=F16)
    optimizer = CPUAdam(params, eps=1e-8)
    for _ in range(3):
        optimizer.step()
    assert_same(params, before)


def test_a_thousand_steps_of_bfloat16_stay_within_an_ulp():
    # apex#1728: beside the same arithmetic in float64, params rounded after each step.
    param = torch.nn.Parameter(torch.linspace(0.1, 2, 40).to(BF16))
    want = param.detach().double().clone()
    optimizer = CPUAdam([param], lr=1e-2)
    param.grad = torch.full_like(param, 1e-3)
    grad = param.grad.double()
    mean, square = torch.zeros_like(want), torch.zeros_like(want)
    for step in range(1, 1001):
        optimizer.step()
        mean = 0.9 * mean + 0.1 * grad
        square = 0.999 * square + 0.001 * grad**2
        denominator = (square / (1 - 0.999**step)).sqrt() + 1e-8
        want = (want - 1e-2 / (1 - 0.9**step) * mean / denominator).to(BF16).double()
    ulp = 2.0 ** (torch.frexp(want)[1].double() - 8)
    assert ((param.detach().double() - want).abs() <= ulp).all()


def test_two_threads_step_two_optimizers():
    both = [make_params([(5_000,), (70_000,)], seed=seed) for seed in (1, 2)]
    alone = [[torch.nn.Parameter(p.detach().clone()) for p in params] for params in both]
    for params in alone:
        train(CPUAdam(params, lr=0.1), params, range(20))
    workers = [
        threading.Thread(target=train, args=(CPUAdam(params, lr=0.1), params, range(20)))
        for params in both
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for params, want in zip(both, alone, strict=True):
        assert_same(params, want)


def test_the_closures_loss_is_returned_with_gradients_on():
    params = make_params([(4,)])
    optimizer = CPUAdam(params)

    def closure():
        optimizer.zero_grad()
        loss = params[0].square().sum()
        loss.backward()
        return loss

    before = params[0].square().sum().item()
    assert optimizer.step(closure).item() == before
    assert params[0].square().sum().item() < before


def test_the_constructor_is_deepspeeds():
    names = list(inspect.signature(CPUAdam).parameters)
    theirs = ["model_params", "lr", "bias_correction", "betas", "eps", "weight_decay", "amsgrad"]
    assert names[:9] == [*theirs, "adamw_mode", "fp32_optimizer_states"]
    defaults = inspect.signature(CPUAdam).parameters
    assert (defaults["weight_decay"].default, defaults["adamw_mode"].default) == (0.0, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": -1.0}, "Invalid learning rate: -1.0"),
        ({"lr": float("nan")}, "Invalid learning rate: nan"),
        ({"betas": (0.9, 1.0)}, "Invalid beta parameter at index 1: 1.0"),
        ({"betas": (0.9,)}, "there must be two"),
        ({"eps": -1.0}, "Invalid epsilon value: -1.0"),
        ({"weight_decay": float("inf")}, "Invalid weight_decay value: inf"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        CPUAdam(make_params([(3,)]), **options)


@pytest.mark.parametrize(
    ("param", "message"),
    [
        (torch.nn.Parameter(torch.ones(3, dtype=torch.float64)), r"params\[1\] is "),
        (torch.nn.Parameter(torch.ones(3, dtype=torch.cfloat)), r"params\[1\] is "),
        (torch.nn.Parameter(torch.ones(3, device="meta")), r"params\[1\] is on meta"),
    ],
)
def test_a_parameter_that_cannot_be_stepped_is_never_skipped(param, message):
    params = [*make_params([(3,)]), param]
    before = values(params[:1])
    for p in params:
        p.grad = torch.ones_like(p)
    with pytest.raises(RuntimeError, match=message):
        CPUAdam(params).step()
    assert_same(params[:1], before)


def test_a_sparse_gradient_is_refused():
    embedding = torch.nn.Embedding(5, 3, sparse=True)
    embedding(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match=r"grads\[0\] is sparse"):
        CPUAdam(embedding.parameters()).step()


def test_a_failed_step_counts_no_step():
    params = make_params([(3,)])
    optimizer = CPUAdam(params)
    train(optimizer, params, range(2))
    optimizer.param_groups[0]["lr"] = -1.0
    with pytest.raises(ValueError, match="Invalid learning rate"):
        train(optimizer, params, [2])
    assert optimizer.state[params[0]]["step"] == 2


class TestSubgroups:
    """One parameter after the other, as ZeRO's offload moves them through."""

    def run(self, optimizer, params, steps) -> None:
        for step in steps:
            set_grads(params, step)
            for number, param in enumerate(params):
                optimizer.param_groups[0]["params"] = [param]
                optimizer.step_subgroup(number)

    def test_they_are_stepped_as_parameters_are(self):
        params = make_params([(30,), (40,)])
        others = clones(params)
        self.run(CPUAdam([torch.nn.Parameter(torch.ones(1))], lr=0.1), params, range(3))
        train(CPUAdam(others, lr=0.1), others, range(3))
        assert_same(params, others)

    def test_a_rollback_undoes_the_last_step(self):
        params = make_params([(30,)])
        optimizer = CPUAdam([torch.nn.Parameter(torch.ones(1))], lr=1e-2)
        self.run(optimizer, params, range(2))
        before = params[0].detach().clone()
        mean = optimizer.state[0]["exp_avg"].clone()
        self.run(optimizer, params, [2])
        optimizer.rollback_subgroup(0)
        assert optimizer.state[0]["step"] == 2
        near = 16 * 2.0**-24
        assert ((params[0] - before).abs() <= near * (before.abs() + 1e-2)).all()
        assert ((optimizer.state[0]["exp_avg"] - mean).abs() <= near * (mean.abs() + 4)).all()

    def test_what_cannot_be_undone_is_refused(self):
        params = make_params([(30,)])
        optimizer = CPUAdam([torch.nn.Parameter(torch.ones(1))])
        with pytest.raises(RuntimeError, match="has not been initialized"):
            optimizer.rollback_subgroup(0)
        self.run(optimizer, params, [0])
        optimizer.rollback_subgroup(0)
        with pytest.raises(RuntimeError, match="step count is 0"):
            optimizer.rollback_subgroup(0)

    def test_one_state_is_not_shared_by_several(self):
        params = make_params([(30,), (30,)])
        set_grads(params, 0)
        with pytest.raises(RuntimeError, match="one state, but 2 parameters"):
            CPUAdam(params).step_subgroup(0)
