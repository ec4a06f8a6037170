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


def test_amsgrad_states_are_refused(device):
    params, optimizer = make(device, torch.optim.AdamW, amsgrad=True)
    train(params, optimizer, 1)
    _, ours = make(device, FusedAdam)
    with pytest.raises(ValueError, match="does not support amsgrad"):
        ours.load_state_dict(optimizer.state_dict())
