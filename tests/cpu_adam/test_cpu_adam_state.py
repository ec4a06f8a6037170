"""State dicts of CPUAdam: its own, torch's, DeepSpeed's; copies and pickles."""

import copy
import io
import pickle

import pytest
import torch
from adam_plain_reference import assert_bounded, plain_step
from adam_reference import Options
from cpu_adam_helpers import (
    BF16,
    F32,
    assert_same,
    clones,
    make_params,
    train,
    values,
)

from mps_ds.optim import CPUAdam


def reloaded(state_dict):
    """Saved and loaded, as on another machine."""
    file = io.BytesIO()
    torch.save(state_dict, file)
    file.seek(0)
    return torch.load(file, map_location="cpu")


@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
@pytest.mark.parametrize("amsgrad", [False, True])
def test_saving_and_loading_does_not_change_the_trajectory(dtype, amsgrad):
    # pytorch#103256, transformers#24708; also: float32 states of bfloat16 params stay float32.
    params = make_params([(30,), (4, 5)], dtype)
    optimizer = CPUAdam(params, lr=0.1, amsgrad=amsgrad)
    train(optimizer, params, range(3))
    others = clones(params)
    other = CPUAdam(others)
    other.load_state_dict(reloaded(optimizer.state_dict()))
    assert other.state[others[0]]["exp_avg"].dtype == F32
    train(optimizer, params, range(3, 6))
    train(other, others, range(3, 6))
    assert_same(params, others)


def test_state_dicts_go_to_and_from_adamw():
    params = make_params([(30,), (4, 5)])
    ours = CPUAdam(params, lr=0.1, weight_decay=0.3, betas=(0.8, 0.95))
    train(ours, params, range(3))
    others = clones(params)
    theirs = torch.optim.AdamW(others)
    theirs.load_state_dict(reloaded(ours.state_dict()))
    assert theirs.param_groups[0]["weight_decay"] == 0.3
    train(theirs, others, range(3, 5))  # steps counted as tensors now
    again = clones(others)
    back = CPUAdam(again)
    back.load_state_dict(reloaded(theirs.state_dict()))
    assert [back.state[p]["step"] for p in again] == [5, 5]
    assert_same(
        [back.state[p]["exp_avg"] for p in again], [theirs.state[p]["exp_avg"] for p in others]
    )
    before = values(again)
    train(back, again, [5])
    for i, param in enumerate(again):
        state = theirs.state[others[i]]
        want = plain_step(
            [before[i], param.grad, state["exp_avg"], state["exp_avg_sq"]],
            6,
            Options(0.1, 0.8, 0.95, 1e-8, 0.3),
        )
        assert_bounded(param, want[0], "param")


def deepspeed_state_dict(optimizer):
    """What DeepSpeedCPUAdam saves: fewer options, steps as ints."""
    state_dict = optimizer.state_dict()
    keep = ("lr", "betas", "eps", "weight_decay", "bias_correction", "amsgrad", "params")
    state_dict["param_groups"] = [
        {name: group[name] for name in keep} for group in state_dict["param_groups"]
    ]
    return state_dict


def test_state_dicts_of_deepspeed_load():
    params = make_params([(30,), (4, 5)])
    optimizer = CPUAdam(params, lr=0.1, bias_correction=False)
    train(optimizer, params, range(3))
    state_dict = deepspeed_state_dict(optimizer)
    assert type(state_dict["state"][0]["step"]) is int  # it passes them to C++ as they are
    others = clones(params)
    other = CPUAdam(others)
    other.load_state_dict(reloaded(state_dict))
    train(optimizer, params, range(3, 6))
    train(other, others, range(3, 6))
    assert_same(params, others)


@pytest.mark.parametrize("kind", [int, float, torch.tensor, lambda n: torch.tensor([float(n)])])
def test_a_step_count_may_be_of_any_type(kind):
    # pytorch#127197
    params = make_params([(30,)])
    others = clones(params)
    optimizer, other = CPUAdam(params), CPUAdam(others)
    train(optimizer, params, range(2))
    train(other, others, range(2))
    other.state[others[0]]["step"] = kind(2)
    train(optimizer, params, [2])
    train(other, others, [2])
    assert_same(params, others)
    assert other.state[others[0]]["step"] == 3


def test_an_empty_group_is_no_error():
    # TransformerEngine#1986
    params = make_params([(30,)])
    optimizer = CPUAdam([{"params": params}, {"params": []}])
    train(optimizer, params, range(2))
    others = clones(params)
    other = CPUAdam([{"params": others}, {"params": []}])
    other.load_state_dict(reloaded(optimizer.state_dict()))
    assert other.state[others[0]]["step"] == 2


def test_empty_parameters_are_no_error():
    # DeepSpeed#8279: nn.Linear(8, 0)
    linear = torch.nn.Linear(8, 0)
    optimizer = CPUAdam(linear.parameters())
    linear(torch.randn(3, 8)).sum().backward()
    optimizer.step()


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_go_on_alike(duplicate):
    params = make_params([(30,)])
    optimizer = CPUAdam(params, lr=0.1, adamw_mode=False, weight_decay=0.1)
    train(optimizer, params, range(2))
    other = duplicate(optimizer)
    others = other.param_groups[0]["params"]
    train(optimizer, params, range(2, 4))
    train(other, others, range(2, 4))
    assert_same(params, others)


def test_a_wrong_state_is_refused_and_nothing_changes():
    params = make_params([(3,)])
    optimizer = CPUAdam(params)
    train(optimizer, params, range(2))
    state_dict = copy.deepcopy(optimizer.state_dict())
    state_dict["state"][0]["exp_avg"] = torch.ones(4)
    with pytest.raises(ValueError, match=r"has shape \(4,\), the parameter has \(3,\)"):
        optimizer.load_state_dict(state_dict)
    assert optimizer.state[params[0]]["exp_avg"].shape == (3,)


def test_the_state_of_a_loaded_dict_is_our_own():
    params = make_params([(3,)])
    optimizer = CPUAdam(params)
    train(optimizer, params, range(2))
    state_dict = optimizer.state_dict()
    saved = state_dict["state"][0]["exp_avg"].clone()
    other = CPUAdam(clones(params))
    other.load_state_dict(state_dict)
    train(other, other.param_groups[0]["params"], range(2))
    assert torch.equal(state_dict["state"][0]["exp_avg"], saved)
