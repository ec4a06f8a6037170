"""No operation's kernels race, and their results do not depend on what Metal leaves open.

Small cases of every operation. The rest of the operations' tests run the same way in
tests/softmetal/test_operations_watched.py, which takes long.
"""

import pytest
import torch

from mps_ds import ops

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
SIZES = [1, 77, 3 * 8192 + 6, 4096]


def tensors(dtype, seed=0, strided=False):
    """Ordinary values: no result is subnormal. At odd offsets: 16-bit neighbours share words."""
    generator = torch.Generator().manual_seed(seed)
    result = []
    for n in SIZES:
        values = (torch.rand(n + 1, generator=generator) + 0.5).to(device="mps", dtype=dtype)[1:]
        result.append(values.view(-1, 3).t() if strided and n % 3 == 0 else values)
    return result


def flag(dtype=torch.float32):
    return torch.zeros(1, device="mps", dtype=dtype)


def with_infinities(list_of_tensors):
    for tensor in list_of_tensors:
        tensor.view(-1)[::7] = torch.inf
    return list_of_tensors


def scaled_parameters(dtype, norm_type):
    parameters = [torch.nn.Parameter(t) for t in tensors(dtype, 1)]
    for parameter, grad in zip(parameters, tensors(dtype, 2), strict=True):
        parameter.grad = grad
    return parameters, ops.clip_grad_norm_(parameters, 1.0, norm_type)


def run_clip(dtype):
    parameters, norm = scaled_parameters(dtype, 2.0)
    return [norm, *(p.grad for p in parameters)]


def run_unscale(dtype):
    found_inf, grads = flag(), tensors(dtype)
    ops.multi_tensor_unscale_(grads, found_inf, torch.full((), 0.25, device="mps"))
    return [found_inf, *grads]


def run_scale(dtype):
    noop, outputs = flag(torch.int32), tensors(dtype)
    ops.multi_tensor_scale(0, noop, [tensors(torch.float32, 1), outputs], 0.5)
    return [noop, *outputs]


def run_scale_in_place(dtype):
    noop, both = flag(torch.int32), tensors(dtype, strided=True)
    ops.multi_tensor_scale(0, noop, [both, both], 0.5)
    return [noop, *both]


def run_axpby(dtype):
    noop, outputs = flag(torch.int32), tensors(dtype)
    ops.multi_tensor_axpby(
        0, noop, [tensors(dtype, 1), tensors(torch.float32, 2), outputs], 0.5, 2.0
    )
    return [noop, *outputs]


def run_overflow_everywhere(dtype):
    found_inf, grads = flag(), with_infinities(tensors(dtype))
    ops.multi_tensor_unscale_(grads, found_inf, 0.25)
    return [found_inf, ops.multi_tensor_non_finite(grads)]


def run_norms(dtype):
    norm, of_each = ops.multi_tensor_l2norm(tensors(dtype), True)
    largest = ops.multi_tensor_l2norm(tensors(dtype, strided=True), norm_type=float("inf"))
    return [norm, of_each, largest]


def run_groups(dtype):
    return list(ops.norm_and_non_finite(tensors(dtype), [0, 1, 0, 2], [1, 1, 0, 1]))


def run_adam(dtype):
    lists = [tensors(dtype, seed) for seed in range(4)]
    ops.adam_(*lists, 3, lr=1e-2, weight_decay=0.1, max_exp_avg_sqs=tensors(dtype, 4))
    return lists


OPERATIONS = {
    name.removeprefix("run_"): function
    for name, function in list(globals().items())
    if name.startswith("run_")
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_races(race_free, operation, dtype):
    OPERATIONS[operation](dtype)
    assert race_free.kernels
    assert sum(kernel.device.bytes for kernel in race_free.kernels.values()) > sum(SIZES)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_same_bits(same_under_freedom, operation, dtype):
    same_under_freedom(lambda: OPERATIONS[operation](dtype))


def test_every_operation_is_here():
    """A new operation needs a case above."""
    covered = {
        "adam_", "clip_grad_norm_", "multi_tensor_axpby", "multi_tensor_l2norm",
        "multi_tensor_non_finite", "multi_tensor_scale", "multi_tensor_unscale_",
        "norm_and_non_finite",
    }  # fmt: skip
    same_kernel = {"multi_tensor_adam"}  # adam_'s, from other arguments
    assert set(ops.__all__) == covered | same_kernel
