"""PyTorch's own samples of its operators (OpInfo), float32: mps equals the CPU bit for bit, forward
and backward, or refuses what a Mac refuses.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_flatten, tree_map

pytest.importorskip("expecttest", reason="PyTorch's internal test library needs it")
common_methods_invocations = pytest.importorskip(
    "torch.testing._internal.common_methods_invocations"
)

SAMPLES = 2  # of each operator
RANDOM = (
    "bernoulli", "cauchy", "dropout", "empty", "exponential", "geometric", "lowrank", "multinomial",
    "normal", "poisson", "rand", "rrelu", "uniform",
)  # fmt: skip
ASK_FOR_FLOAT64 = {
    "double", "float_power", "log_softmax_with_dtype", "nn_functional_softmin_with_dtype",
    "softmax_with_dtype", "to",
}  # fmt: skip
NOT_COMPARABLE = {
    "cdouble": "asks for complex128",
    "chalf": "no CPU kernels",
    "as_strided_partial_views": "moving a view to a device leaves its base behind",
    "nn_functional_multi_head_attention_forward": "the CPU takes its flash path",
    "nn_functional_scaled_dot_product_attention": "the CPU takes its flash path",
    "nn_functional_fractional_max_pool2d": "draws random numbers",
    "nn_functional_fractional_max_pool3d": "draws random numbers",
    "sparse_mm_reduce": "sparse",
    "sparse_sampled_addmm": "sparse",
    "to_sparse": "sparse",
    "tensor_split": "wants its indices on the CPU",
}
# Composites that choose another, equally exact way for tensors that are not on the CPU.
OTHER_ROUNDING = {"inner", "renorm", "tensordot"}
OTHER_STRIDES = {"tensordot"}


def operators() -> Iterator[Any]:
    for op in common_methods_invocations.op_db:
        name = op.formatted_name
        skipped = (
            name in NOT_COMPARABLE
            or name.startswith("jiterator")
            or any(word in name for word in RANDOM)
        )
        if not skipped and torch.float32 in op.dtypes:
            yield pytest.param(op, id=name)


def on(device: str, value: Any) -> Any:
    def move(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return x.detach().clone().to(device).requires_grad_(x.requires_grad)
        if isinstance(x, torch.device) or x == "cpu":
            return torch.device(device)
        return x

    return tree_map(move, value)


def run(op: Any, sample: Any, device: str) -> list[torch.Tensor]:
    """Strided outputs, then the gradients of their sum."""
    torch.manual_seed(0)
    arguments = on(device, (sample.input, tuple(sample.args), sample.kwargs))
    inputs = [x for x in tree_flatten(arguments)[0] if isinstance(x, torch.Tensor)]
    outputs = [
        x
        for x in tree_flatten(op(arguments[0], *arguments[1], **arguments[2]))[0]
        if isinstance(x, torch.Tensor) and x.layout == torch.strided
    ]
    leaves = [x for x in inputs if x.requires_grad and x.is_leaf]
    differentiable = [x for x in outputs if x.requires_grad]
    gradients: list[torch.Tensor] = []
    if leaves and differentiable:
        loss = sum((x.abs() if x.is_complex() else x).sum() for x in differentiable)
        gradients = [
            g for g in torch.autograd.grad(loss, leaves, allow_unused=True) if g is not None
        ]
    return outputs + gradients


def assert_same(name: str, actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert actual.device.type == "mps"
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    if name not in OTHER_STRIDES:
        assert actual.stride() == expected.stride()
    tolerance = 1e-5 if name in OTHER_ROUNDING else 0
    torch.testing.assert_close(
        actual.detach().cpu(), expected.detach(), rtol=tolerance, atol=tolerance, equal_nan=True
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", list(operators()))
def test_operator(op: Any) -> None:
    name = op.formatted_name
    samples = op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd)
    for sample in itertools.islice(samples, SAMPLES):
        try:
            expected = run(op, sample, "cpu")
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            continue  # a sample that the CPU refuses
        try:
            actual = run(op, sample, "mps")
        except TypeError as error:
            if name not in ASK_FOR_FLOAT64 or "float64" not in str(error):
                raise
            continue
        except NotImplementedError as error:
            if "is not currently implemented for the MPS device" not in str(error):
                raise
            pytest.skip(str(error).split("'")[1] + " is missing on a Mac too")
        assert len(actual) == len(expected)
        for on_mps, on_cpu in zip(actual, expected, strict=True):
            assert_same(name, on_mps, on_cpu)
