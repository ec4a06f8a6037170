"""State dicts of FusedAdam: both ways with torch.optim, and what else carries state."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn

from mps_ds.optim import FusedAdam

SHAPES = ((5, 3), (7,), ())


def make(device, cls, seed=0, **kwargs):
    generator = torch.Generator().manual_seed(seed)
    params = [nn.Parameter(torch.randn(s, generator=generator).to(device)) for s in SHAPES]
    return params, cls(params, lr=1e-2, weight_decay=0.1, **kwargs)


def train(params, optimizer, steps, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        for param in params:
            param.grad = torch.randn(param.shape, generator=generator).to(param.device)
        optimizer.step()


def values(params):
    return [p.detach().cpu().clone() for p in params]


def close(a, b):
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-6, atol=1e-6)


PEERS = [(torch.optim.AdamW, True), (torch.optim.Adam, False)]


@pytest.mark.parametrize(("peer", "adam_w_mode"), PEERS)
@pytest.mark.parametrize("ours_first", [True, False])
def test_each_goes_on_from_the_others_state(device, peer, adam_w_mode, ours_first):
    def ours(d):
        return make(d, FusedAdam, adam_w_mode=adam_w_mode)

    def theirs(d):
        return make(d, peer)

    first, second = (ours, theirs) if ours_first else (theirs, ours)
    params, optimizer = first(device)
    train(params, optimizer, 5)
    params2, optimizer2 = second(device)
    with torch.no_grad():
        for a, b in zip(params, params2, strict=True):
            b.copy_(a)
    # torch.optim shares the tensors that it loads.
    optimizer2.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    train(params, optimizer, 5, seed=1)
    train(params2, optimizer2, 5, seed=1)
    close(values(params), values(params2))


def test_the_format_is_that_of_adamw(device):
    states = []
    for cls in (FusedAdam, torch.optim.AdamW):
        params, optimizer = make(device, cls)
        train(params, optimizer, 3)
        states.append(optimizer.state_dict())
    ours, theirs = states
    assert ours.keys() == theirs.keys()
    assert ours["param_groups"][0].keys() >= theirs["param_groups"][0].keys()
    assert ours["state"].keys() == theirs["state"].keys()
    for a, b in zip(ours["state"].values(), theirs["state"].values(), strict=True):
        assert a.keys() == b.keys()
        for key in a:
            assert (a[key].dtype, a[key].shape, a[key].device) == (
                b[key].dtype,
                b[key].shape,
                b[key].device,
            )


@pytest.mark.parametrize("map_location", [None, "cpu"])
def test_saved_and_loaded_it_goes_on_as_if_unbroken(device, map_location):
    # pytorch#103256, transformers#24708
    params, optimizer = make(device, FusedAdam)
    train(params, optimizer, 4)
    file = io.BytesIO()
    torch.save({"params": params, "optimizer": optimizer.state_dict()}, file)
    train(params, optimizer, 4, seed=1)

    file.seek(0)
    saved = torch.load(file, map_location=map_location)
    params2, optimizer2 = make(device, FusedAdam, seed=9)
    with torch.no_grad():
        for mine, theirs in zip(params2, saved["params"], strict=True):
            mine.copy_(theirs)
    optimizer2.load_state_dict(saved["optimizer"])
    train(params2, optimizer2, 4, seed=1)
    for a, b in zip(values(params), values(params2), strict=True):
        assert torch.equal(a, b)


def test_loading_copies(device):
    params, optimizer = make(device, FusedAdam)
    train(params, optimizer, 2)
    saved = optimizer.state_dict()
    params2, optimizer2 = make(device, FusedAdam)
    optimizer2.load_state_dict(saved)
    before = [s["exp_avg"].clone() for s in optimizer.state.values()]
    train(params2, optimizer2, 2)
    for old, state in zip(before, optimizer.state.values(), strict=True):
        assert torch.equal(old, state["exp_avg"])
    assert all(s["step"] == 2 for s in optimizer.state.values())


def test_state_dict_does_not_change_the_optimizer(device):
    params, optimizer = make(device, FusedAdam)
    train(params, optimizer, 1)
    optimizer.state_dict()
    assert all(type(s["step"]) is int for s in optimizer.state.values())
    train(params, optimizer, 1)
    assert all(s["step"] == 2 for s in optimizer.state.values())


def test_loaded_states_share_few_buffers(device):
    params, optimizer = make(device, FusedAdam)
    train(params, optimizer, 1)
    _, optimizer2 = make(device, FusedAdam)
    optimizer2.load_state_dict(optimizer.state_dict())
    storages = {s["exp_avg"].untyped_storage()._cdata for s in optimizer2.state.values()}
    assert len(storages) == 1


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_a_copied_optimizer_goes_on_alike(duplicate):
    # On the CPU: a pickled mps tensor is another matter, tested with the device.
    params, optimizer = make("cpu", FusedAdam, adam_w_mode=False)
    train(params, optimizer, 3)
    optimizer2 = duplicate(optimizer)
    params2 = optimizer2.param_groups[0]["params"]
    train(params, optimizer, 3, seed=1)
    train(params2, optimizer2, 3, seed=1)
    for a, b in zip(values(params), values(params2), strict=True):
        assert torch.equal(a, b)


def test_a_deepcopied_optimizer_on_the_device(device):
    params, optimizer = make(device, FusedAdam)
    train(params, optimizer, 3)
    optimizer2 = copy.deepcopy(optimizer)
    params2 = optimizer2.param_groups[0]["params"]
    train(params, optimizer, 3, seed=1)
    train(params2, optimizer2, 3, seed=1)
    for a, b in zip(values(params), values(params2), strict=True):
        assert torch.equal(a, b)


def test_the_constructor_decides_on_weight_decay(device):
    params, optimizer = make(device, torch.optim.Adam)
    train(params, optimizer, 1)
    _, adamw = make(device, FusedAdam)
    adamw.load_state_dict(optimizer.state_dict())
    assert adamw.param_groups[0]["adam_w_mode"] is True


@pytest.mark.parametrize("step", [3, 3.0, torch.tensor(3.0)])
def test_loaded_step_counts_may_be_any_number(device, step):
    # pytorch#127197
    params, optimizer = make(device, FusedAdam)
    train(params, optimizer, 1)
    saved = optimizer.state_dict()
    for state in saved["state"].values():
        state["step"] = step
    optimizer.load_state_dict(saved)
    assert [s["step"] for s in optimizer.state.values()] == [3, 3, 3]


def test_step_count_kept_in_the_group(device):
    # As DeepSpeed and apex have it.
    params, optimizer = make(device, FusedAdam)
    train(params, optimizer, 2)
    saved = optimizer.state_dict()
    for state in saved["state"].values():
        del state["step"]
    saved["param_groups"][0]["step"] = 2
    optimizer.load_state_dict(saved)
    train(params, optimizer, 1)
    assert [s["step"] for s in optimizer.state.values()] == [3, 3, 3]


def test_step_counts_are_saved_exactly_whatever_the_defaults(device):
    params, optimizer = make(device, FusedAdam)
    train(params, optimizer, 1)
    for state in optimizer.state.values():
        state["step"] = 1001
    torch.set_default_dtype(torch.bfloat16)
    torch.set_default_device(device)
    try:
        saved = optimizer.state_dict()
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
    for state in saved["state"].values():
        assert state["step"].item() == 1001
        assert (state["step"].dtype, state["step"].device.type) == (torch.float32, "cpu")


@pytest.mark.parametrize("again", [copy.deepcopy, None], ids=["deepcopy", "state dict"])
def test_each_group_keeps_its_kind_of_weight_decay(again):
    def group(**options):
        return {"params": [nn.Parameter(torch.ones(1))], **options}

    for options in ({"adam_w_mode": False}, {"decoupled_weight_decay": False}):
        optimizer = FusedAdam([group(), group(**options)], lr=0.1, weight_decay=0.5)
        if again is None:
            optimizer.load_state_dict(optimizer.state_dict())
        else:
            optimizer = again(optimizer)
        assert [g["adam_w_mode"] for g in optimizer.param_groups] == [True, False]
        for g in optimizer.param_groups:
            g["params"][0].grad = torch.zeros(1)
        optimizer.step()
        decayed, penalised = (g["params"][0].item() for g in optimizer.param_groups)
        assert decayed == pytest.approx(0.95)
        assert penalised == pytest.approx(0.9)


def wrong_shape(saved):
    saved["state"][0]["exp_avg"] = saved["state"][0]["exp_avg"][0]


def wrong_optimizer(saved):
    saved["state"][0] = {"momentum_buffer": torch.zeros(5, 3)}


def fraction_of_a_step(saved):
    saved["state"][0]["step"] = 2.7


def wrong_shape_of_the_largest(saved):
    saved["param_groups"][0]["amsgrad"] = True
    saved["state"][1]["max_exp_avg_sq"] = torch.zeros(2)


def negative_lr(saved):
    saved["param_groups"][0]["lr"] = -1.0


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (wrong_shape, r"'exp_avg' in the state of params\[0\] .* has shape \(3,\), .* \(5, 3\)"),
        (
            wrong_optimizer,
            r"state of params\[0\] .* has no 'exp_avg'; it has \['momentum_buffer'\]",
        ),
        (fraction_of_a_step, r"'step' in the state of params\[0\] .* is 2.7"),
        (
            wrong_shape_of_the_largest,
            r"'max_exp_avg_sq' in the state of params\[1\] .* has shape \(2,\)",
        ),
        (negative_lr, "Invalid learning rate: -1.0"),
    ],
)
def test_what_cannot_be_loaded_changes_nothing(device, spoil, message):
    params, optimizer = make(device, FusedAdam)
    train(params, optimizer, 2)
    foreign = copy.deepcopy(optimizer.state_dict())
    for state in foreign["state"].values():
        state["step"] = torch.tensor(40.0)
    spoil(foreign)
    before = copy.deepcopy(optimizer.state_dict())
    with pytest.raises(ValueError, match=message):
        optimizer.load_state_dict(foreign)
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    for old, new in zip(before["state"].values(), after["state"].values(), strict=True):
        assert all(torch.equal(old[key], new[key]) for key in old)
    train(params, optimizer, 1)
    assert {s["step"] for s in optimizer.state.values()} == {3}


def test_a_tensor_lr_resumes_from_a_file_that_was_mapped_to_the_device(device):
    params, optimizer = make(device, FusedAdam)
    optimizer.param_groups[0]["lr"] = torch.tensor(0.5)
    train(params, optimizer, 1)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    optimizer.load_state_dict(torch.load(file, map_location=device))
    assert optimizer.param_groups[0]["lr"].device.type == "cpu"
    train(params, optimizer, 1)


def test_a_capturable_checkpoint_of_adamw_loads(device):
    params, optimizer = make(device, torch.optim.AdamW)
    train(params, optimizer, 2)
    saved = optimizer.state_dict()
    saved["param_groups"][0]["capturable"] = True
    for state in saved["state"].values():
        state["step"] = state["step"].to(device)
    params2, ours = make(device, FusedAdam)
    ours.load_state_dict(saved)
    train(params2, ours, 1)
    assert {float(s["step"]) for s in ours.state.values()} == {3.0}
