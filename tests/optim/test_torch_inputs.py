"""PyTorch's own inputs for its Adam and AdamW, through FusedAdam and through PyTorch's for-loop."""

import copy

import pytest
import torch
from torch import nn
from torch.testing._internal import common_optimizers as peers

from mps_ds.optim import FusedAdam

# "cuda" has the inputs for tensors as lr, and capturable, besides those for every device.
CASES = [
    (peer, inputs)
    for peer in (torch.optim.AdamW, torch.optim.Adam)
    for inputs in getattr(peers, f"optim_inputs_func_{peer.__name__.lower()}")(device="cuda")
]


def make_params(device, dtype):
    generator = torch.Generator().manual_seed(0)
    shapes = ((10, 5), (5,), (), (3, 0), (2, 3, 4))
    return [nn.Parameter(torch.randn(s, generator=generator).to(device, dtype)) for s in shapes]


def adapted(options, device):
    """The options of FusedAdam that mean the same."""
    options = copy.deepcopy(options)
    if isinstance(options.get("lr"), torch.Tensor):
        options["lr"] = options["lr"].to(device, torch.float32)
    return options


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("peer", "inputs"), CASES, ids=[f"{peer.__name__}-{inputs.desc}" for peer, inputs in CASES]
)
def test_equals_the_for_loop(device, peer, inputs, dtype):
    theirs_options = {**inputs.kwargs, "foreach": False, "capturable": False, "fused": False}
    if isinstance(theirs_options.get("lr"), torch.Tensor):
        theirs_options["lr"] = theirs_options["lr"].item()
    params, others = make_params(device, dtype), make_params("cpu", torch.float32)
    decoupled = peer is torch.optim.AdamW or bool(inputs.kwargs.get("decoupled_weight_decay"))
    ours = FusedAdam(
        params, **{"weight_decay": peer([torch.ones(1)]).defaults["weight_decay"],
                   **adapted(inputs.kwargs, device)}, adam_w_mode=decoupled,
    )  # fmt: skip
    theirs = peer(others, **theirs_options)
    for param, other in zip(params, others, strict=True):
        other.data.copy_(param.data)
    for step in range(5):
        generator = torch.Generator().manual_seed(step)
        for param, other in zip(params, others, strict=True):
            grad = torch.randn(param.shape, generator=generator).to(dtype)
            param.grad, other.grad = grad.to(device), grad.float()
        ours.step()
        theirs.step()
        if dtype != torch.float32:  # the loop keeps its params in 16 bits, as ours do
            for other in others:
                other.data.copy_(other.data.to(dtype))
    # torch's loop rounds each of some ten operations to fp32; 16-bit params may fall on either side
    # of a rounding once a step.
    lr = float(theirs_options.get("lr", 1e-3))
    spacing = torch.finfo(dtype).eps
    for param, other in zip(params, others, strict=True):
        error = (param.detach().cpu().float() - other.detach()).abs()
        exact = dtype == torch.float32
        bound = (5 * 2.0**-23 if exact else spacing) * other.detach().abs() + 5 * 2.0**-20 * lr
        assert (error <= bound).all(), (error / bound).max()


def test_every_input_of_pytorch_is_taken():
    assert len(CASES) >= 20
