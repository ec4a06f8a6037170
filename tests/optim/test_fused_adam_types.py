"""FusedAdam with 16-bit parameters, amsgrad, step counts and learning rates on the device."""

import copy
import io

import adam_types as types
import numpy as np
import pytest
import torch
from adam_reference import Options
from adam_types import BFLOAT16, FLOAT16, FLOAT32
from torch import nn

from mps_ds.optim import FusedAdam

SHAPES = ((5, 3), (7,), (), (0, 2), (40, 30))


def make_params(device, dtypes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [
        nn.Parameter(torch.randn(s, generator=generator).to(device, dtypes[i % len(dtypes)]))
        for i, s in enumerate(SHAPES)
    ]


def set_grads(params, seed, skip=()):
    generator = torch.Generator().manual_seed(seed)
    for i, param in enumerate(params):
        grad = torch.randn(param.shape, generator=generator)
        param.grad = None if i in skip else grad.to(param.device, param.dtype)


def train(params, optimizer, steps, seed=0):
    for step in range(steps):
        set_grads(params, seed + step)
        optimizer.step()


def everything(optimizer, params):
    """All that a step writes, as bits."""
    tensors = [types.bits(p) for p in params]
    for state in (optimizer.state[p] for p in params):
        tensors += [types.bits(state[key]) for key in state if key != "step"]
        tensors.append(np.float64(state["step"].item() if torch.is_tensor(state["step"]) else
                                  state["step"]))  # fmt: skip
    return tensors


def assert_same(optimizer, params, other, others):
    for a, b in zip(everything(optimizer, params), everything(other, others), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtypes", [(FLOAT16,), (BFLOAT16,), (FLOAT32, FLOAT16, BFLOAT16)])
@pytest.mark.parametrize("own_states", [False, True])
def test_each_step_equals_float64(device, dtypes, own_states):
    options = Options(lr=1e-2, weight_decay=0.1)
    params = make_params(device, dtypes)
    state_dtype = dtypes[0] if own_states and len(dtypes) == 1 else None
    optimizer = FusedAdam(params, lr=1e-2, weight_decay=0.1, state_dtype=state_dtype)
    for step in (1, 2, 3):
        set_grads(params, step)
        states = [optimizer.state.get(p) or {"exp_avg": torch.zeros_like(p), "exp_avg_sq":
                  torch.zeros_like(p)} for p in params]  # fmt: skip
        before = [types.Row(p.detach(), p.grad, s["exp_avg"], s["exp_avg_sq"]).copy()
                  for p, s in zip(params, states, strict=True)]  # fmt: skip
        optimizer.step()
        for param, row in zip(params, before, strict=True):
            state = optimizer.state[param]
            assert state["exp_avg"].dtype == (state_dtype or FLOAT32)
            after = types.Row(param.detach(), param.grad, state["exp_avg"], state["exp_avg_sq"])
            types.assert_step(after, row, step, options)


def test_each_dtype_of_a_group_has_its_own_step_counts(device):
    # DeepSpeed#8471
    params = make_params(device, (FLOAT32, BFLOAT16))[:2]
    optimizer = FusedAdam(params, lr=1e-2)
    for step in range(3):
        set_grads(params, step, skip=(1,) if step == 1 else ())
        optimizer.step()
    assert [optimizer.state[p]["step"] for p in params] == [3, 2]


@pytest.mark.parametrize("peer", [torch.optim.AdamW, torch.optim.Adam])
def test_amsgrad_equals_torch_and_states_go_both_ways(device, peer):
    decoupled = peer is torch.optim.AdamW
    params, others = make_params(device, (FLOAT32,)), make_params(device, (FLOAT32,))
    ours = FusedAdam(params, lr=1e-2, weight_decay=0.1, amsgrad=True, adam_w_mode=decoupled)
    theirs = peer(others, lr=1e-2, weight_decay=0.1, amsgrad=True)
    train(params, ours, 3)
    train(others, theirs, 3)
    saved, saved_theirs = copy.deepcopy(ours.state_dict()), copy.deepcopy(theirs.state_dict())
    assert set(saved["state"][0]) == set(saved_theirs["state"][0])
    theirs.load_state_dict(saved)
    ours.load_state_dict(saved_theirs)
    train(params, ours, 3, seed=3)
    train(others, theirs, 3, seed=3)
    for a, b in zip(params, others, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_groups_with_and_without_amsgrad_are_stepped_as_if_apart(device):
    params, others = make_params(device, (FLOAT32,)), make_params(device, (FLOAT32,))

    def groups(p):
        return [{"params": p[::2], "amsgrad": True}, {"params": p[1::2]}]

    together = FusedAdam(groups(params), lr=1e-2)
    apart = [FusedAdam([group], lr=1e-2) for group in groups(others)]
    for step in range(4):
        set_grads(params, step, skip=(2,) if step == 1 else ())
        set_grads(others, step, skip=(2,) if step == 1 else ())
        together.step()
        for optimizer in apart:
            optimizer.step()
    for a, b in zip(params, others, strict=True):
        np.testing.assert_array_equal(types.bits(a), types.bits(b))
    assert "max_exp_avg_sq" in together.state[params[0]]
    assert "max_exp_avg_sq" not in together.state[params[1]]


def test_amsgrad_switched_on_later_starts_from_zero(device):
    params = make_params(device, (FLOAT32,))
    optimizer = FusedAdam(params, lr=1e-2)
    train(params, optimizer, 2)
    optimizer.param_groups[0]["amsgrad"] = True
    train(params, optimizer, 1, seed=2)
    state = optimizer.state[params[0]]
    assert torch.equal(state["max_exp_avg_sq"], state["exp_avg_sq"])


def test_capturable_keeps_counts_on_the_device_and_changes_nothing_else(device):
    params, others = make_params(device, (FLOAT32,)), make_params(device, (FLOAT32,))
    ours, plain = FusedAdam(params, lr=1e-2, capturable=True), FusedAdam(others, lr=1e-2)
    for step in range(5):
        set_grads(params, step, skip=(1,) if step == 2 else ())
        set_grads(others, step, skip=(1,) if step == 2 else ())
        ours.step()
        plain.step()
    counts = [ours.state[p]["step"] for p in params]
    if device.type == "mps":
        assert {(c.device.type, c.dtype, c.shape) for c in counts} == {
            ("mps", FLOAT32, torch.Size([]))
        }
    assert [int(c) for c in counts] == [5, 4, 5, 5, 5]
    for a, b in zip(params, others, strict=True):
        torch.testing.assert_close(a, b, rtol=2.0**-22, atol=0)


def test_betas_that_change_reach_counts_on_the_device(device):
    params, others = make_params(device, (FLOAT32,)), make_params(device, (FLOAT32,))
    ours, plain = FusedAdam(params, lr=1e-2, capturable=True), FusedAdam(others, lr=1e-2)
    for step in range(4):
        for optimizer in (ours, plain):
            optimizer.param_groups[0]["betas"] = (0.9 - 0.1 * step, 0.999 - 0.01 * step)
        set_grads(params, step)
        set_grads(others, step)
        ours.step()
        plain.step()
    for a, b in zip(params, others, strict=True):
        torch.testing.assert_close(a, b, rtol=2.0**-22, atol=0)


@pytest.mark.parametrize("how", ["in place", "replaced"])
def test_counts_on_the_device_may_be_set(device, how):
    params, others = make_params(device, (FLOAT32,)), make_params(device, (FLOAT32,))
    ours, plain = FusedAdam(params, lr=1e-2, capturable=True), FusedAdam(others, lr=1e-2)
    train(params, ours, 2)
    train(others, plain, 2)
    for param, other in zip(params, others, strict=True):
        plain.state[other]["step"] = 50
        if how == "replaced" or not torch.is_tensor(ours.state[param]["step"]):
            ours.state[param]["step"] = torch.tensor(50.0, device=device)
        else:
            ours.state[param]["step"].fill_(50)
    train(params, ours, 2, seed=2)
    train(others, plain, 2, seed=2)
    assert {int(ours.state[p]["step"]) for p in params} == {52}
    for a, b in zip(params, others, strict=True):
        torch.testing.assert_close(a, b, rtol=2.0**-22, atol=0)


def test_lr_may_be_on_the_device_and_scheduled_there(device):
    params, others = make_params(device, (FLOAT32,)), make_params(device, (FLOAT32,))
    ours = FusedAdam(params, lr=torch.tensor(0.01, device=device), weight_decay=0.1)
    plain = FusedAdam(others, lr=0.01, weight_decay=0.1)
    for optimizer in (ours, plain):
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        for step in range(4):
            own = params if optimizer is ours else others
            set_grads(own, step)
            optimizer.step()
            scheduler.step()
    assert ours.param_groups[0]["lr"].device.type == device.type
    for a, b in zip(params, others, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


def test_an_lr_on_the_device_beside_a_group_with_a_number(device):
    params, others = make_params(device, (FLOAT32,)), make_params(device, (FLOAT32,))
    ours = FusedAdam(
        [
            {"params": params[:2], "lr": torch.tensor(0.25, device=device)},
            {"params": params[2:], "lr": 0.5},
        ]
    )
    plain = FusedAdam([{"params": others[:2], "lr": 0.25}, {"params": others[2:], "lr": 0.5}])
    train(params, ours, 2)
    train(others, plain, 2)
    for a, b in zip(params, others, strict=True):
        torch.testing.assert_close(a, b, rtol=2.0**-22, atol=0)


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16])
@pytest.mark.parametrize("through", ["state dict", "file", "deepcopy", "hooks"])
def test_fp32_states_of_16_bit_params_survive_a_checkpoint(device, dtype, through):
    # pytorch#103256, transformers#24708: the base class casts states to the parameters' dtype.
    params = make_params(device, (dtype,))
    optimizer = FusedAdam(params, lr=1e-2)
    train(params, optimizer, 3)
    copies = [nn.Parameter(p.detach().clone()) for p in params]
    if through == "deepcopy":
        copies, resumed = copy.deepcopy((params, optimizer))
    else:
        resumed = FusedAdam(copies, lr=1e-2)
        saved = optimizer.state_dict()
        if through == "file":
            file = io.BytesIO()
            torch.save(saved, file)
            file.seek(0)
            saved = torch.load(file, map_location="cpu")
        if through == "hooks":
            kept, saved = saved, {"wrapped": saved}
            resumed.register_load_state_dict_pre_hook(lambda _, given: given["wrapped"])
            assert kept is not saved
        resumed.load_state_dict(saved)
    assert_same(optimizer, params, resumed, copies)
    train(params, optimizer, 3, seed=3)
    train(copies, resumed, 3, seed=3)
    assert_same(optimizer, params, resumed, copies)


def test_a_loaded_state_dict_stays_its_owners(device):
    params = make_params(device, (FLOAT32,))
    optimizer = FusedAdam(params, lr=1e-2)
    train(params, optimizer, 1)
    saved = optimizer.state_dict()
    copies = make_params(device, (FLOAT32,))
    other = FusedAdam(copies, lr=1e-2)
    other.load_state_dict(saved)
    before = saved["state"][0]["exp_avg"].clone()
    train(copies, other, 2)
    assert torch.equal(saved["state"][0]["exp_avg"], before)


def test_states_of_torch_of_16_bit_params_load(device):
    params, others = make_params(device, (BFLOAT16,)), make_params(device, (BFLOAT16,))
    theirs = torch.optim.AdamW(others, lr=1e-2)
    train(others, theirs, 2)
    for state_dtype in (None, BFLOAT16):
        ours = FusedAdam(params, lr=1e-2, state_dtype=state_dtype)
        ours.load_state_dict(copy.deepcopy(theirs.state_dict()))
        assert ours.state[params[0]]["exp_avg"].dtype == (state_dtype or FLOAT32)
        assert torch.equal(
            ours.state[params[0]]["exp_avg"].float(), theirs.state[others[0]]["exp_avg"].float()
        )
        train(params, ours, 1)


def test_stochastic_rounding_is_reproducible_and_resumes(device):
    results = []
    for resume in (False, True):
        params = make_params(device, (BFLOAT16,))
        optimizer = FusedAdam(params, lr=1e-3, stochastic_rounding=7)
        train(params, optimizer, 2)
        if resume:
            again = FusedAdam(params, lr=1e-3, stochastic_rounding=7)
            again.load_state_dict(optimizer.state_dict())
            optimizer = again
        train(params, optimizer, 2, seed=2)
        results.append([types.bits(p) for p in params])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


def test_counts_that_were_set_survive_a_skipped_step(device):
    params = make_params(device, (FLOAT32,))
    optimizer = FusedAdam(params, lr=1e-2, capturable=True)
    train(params, optimizer, 2)
    for param in params:
        optimizer.state[param]["step"] = torch.tensor(100.0, device=device)
    train(params, optimizer, 1, seed=2)
    for param in params:
        if torch.is_tensor(optimizer.state[param]["step"]):
            optimizer.state[param]["step"].fill_(200)
        else:
            optimizer.state[param]["step"] = 200
    optimizer.found_inf = torch.ones(())  # on the CPU, as a GradScaler there would set it
    train(params, optimizer, 1, seed=3)
    del optimizer.found_inf
    train(params, optimizer, 1, seed=4)
    assert {int(optimizer.state[p]["step"]) for p in params} == {201}


@pytest.mark.skipif(not torch.backends.mps.is_available(), reason="needs two devices")
def test_an_lr_on_another_device_is_refused():
    params = make_params("cpu", (FLOAT32,))
    optimizer = FusedAdam(params, lr=torch.tensor(0.1, device="mps"))
    before = [types.bits(p).copy() for p in params]
    set_grads(params, 0)
    with pytest.raises(
        RuntimeError, match="lr of param group 0 is on mps:0, the parameters on cpu"
    ):
        optimizer.step()
    for param, old in zip(params, before, strict=True):
        np.testing.assert_array_equal(types.bits(param), old)
    assert {state["step"] for state in optimizer.state.values()} == {0}


@pytest.mark.parametrize("largest", [None, torch.zeros(2)])
def test_a_state_that_cannot_be_loaded_leaves_all_as_it_was(device, largest):
    params = make_params(device, (FLOAT32,))
    optimizer = FusedAdam(params, lr=1e-2)
    train(params, optimizer, 1)
    saved = copy.deepcopy(optimizer.state_dict())
    saved["param_groups"][0]["lr"] = 7.0
    saved["state"][1]["max_exp_avg_sq"] = largest
    if largest is None:
        optimizer.load_state_dict(saved)
        assert optimizer.param_groups[0]["lr"] == 7.0
        return
    with pytest.raises(ValueError, match="'max_exp_avg_sq' in the state of params"):
        optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["lr"] == 1e-2


@pytest.mark.parametrize("capturable", [True, False])
def test_a_first_step_in_inference_mode_leaves_a_usable_optimizer(device, capturable):
    param = nn.Parameter(torch.ones(3, device=device))
    optimizer = FusedAdam([param], capturable=capturable)
    param.grad = torch.ones_like(param)
    with torch.inference_mode():
        optimizer.step()
    optimizer.step()
    assert int(optimizer.state[param]["step"]) == 2


def test_data_of_another_dtype_or_offset_is_noticed(device):
    flat = torch.zeros(64, device=device)
    param = nn.Parameter(flat[:8])
    optimizer = FusedAdam([param], lr=0.1, weight_decay=0.0)
    param.grad = torch.ones(8, device=device)
    optimizer.step()
    param.data = torch.zeros(8, dtype=BFLOAT16, device=device)
    param.grad = None
    param.grad = torch.ones(8, dtype=BFLOAT16, device=device)
    optimizer.step()
    assert (param + 0.1).abs().max().item() < 1e-2


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_seeds_are_checked_at_once(seed):
    with pytest.raises(ValueError, match="a seed must be >= 0 and below"):
        FusedAdam([nn.Parameter(torch.ones(1))], stochastic_rounding=seed)
