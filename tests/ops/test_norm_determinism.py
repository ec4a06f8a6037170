"""The same input gives the same bits: on every device, in every run, in any order of threads."""

import math

import pytest
import torch
from norm_reference import BOUNDARIES, DTYPES, bits, on_softmetal, values

from mps_ds.ops import (
    clip_grad_norm_,
    multi_tensor_l2norm,
    multi_tensor_non_finite,
    multi_tensor_unscale_,
    norm_and_non_finite,
)

NORM_TYPES = [2.0, math.inf]


def sample() -> list[torch.Tensor]:
    """All types, sizes and scales; flat, strided and unaligned."""
    tensors = [values(n, DTYPES[n % 3], n) * 2.0 ** (n % 11 - 5) for n in BOUNDARIES[::5]]
    tensors += [values((30, 40)).t(), values((9, 50), torch.float16)[:, ::3]]
    tensors += [values(9001, torch.bfloat16)[1:], 1e-25 * values(5000), 1e30 * values(777)]
    return tensors


def results(tensors, norm_type=2.0) -> list[int]:
    total, norms = multi_tensor_l2norm(tensors, True, norm_type=norm_type)
    groups, found = norm_and_non_finite(
        tensors, [i % 3 for i in range(len(tensors))], norm_type=norm_type
    )
    return bits(total) + bits(norms) + bits(groups) + bits(found)


@pytest.mark.skipif(not torch.backends.mps.is_available(), reason="needs two devices")
@pytest.mark.parametrize("norm_type", NORM_TYPES)
def test_mps_and_cpu_agree(norm_type):
    tensors = sample()
    on_mps = [t.to("mps") for t in tensors[:-5]]
    # .to() makes dense copies; views of views keep their strides.
    on_mps += [values((30, 40)).to("mps").t(), values((9, 50), torch.float16).to("mps")[:, ::3]]
    on_mps += [values(9001, torch.bfloat16).to("mps")[1:]] + [t.to("mps") for t in tensors[-2:]]
    assert results(on_mps, norm_type) == results(tensors, norm_type)


@pytest.mark.parametrize("norm_type", NORM_TYPES)
def test_many_runs_agree(device, norm_type):
    tensors = [t.to(device) for t in sample()]
    assert len({tuple(results(tensors, norm_type)) for _ in range(20)}) == 1


def test_the_number_of_cpu_threads_changes_no_bit():
    tensors = [*sample(), values(1_000_000)]
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = results(tensors)
        torch.set_num_threads(3)
        assert results(tensors) == alone
    finally:
        torch.set_num_threads(threads)


@on_softmetal
@pytest.mark.parametrize("norm_type", NORM_TYPES)
def test_norms_do_not_depend_on_what_metal_leaves_open(same_under_freedom, norm_type):
    def compute():
        tensors = [t.to("mps") for t in sample()] + [values(300_000, seed=1).to("mps")]
        total, norms = multi_tensor_l2norm(tensors, True, norm_type=norm_type)
        groups = [i % 3 for i in range(len(tensors))]
        return [total, norms, *norm_and_non_finite(tensors, groups, norm_type=norm_type)]

    same_under_freedom(compute)


@on_softmetal
def test_what_is_written_does_not_depend_on_what_metal_leaves_open(same_under_freedom):
    def compute():
        grads = [values(n, DTYPES[n % 3], n).to("mps") for n in BOUNDARIES[::5]]
        grads += [values((30, 40)).to("mps").t(), values(9001, torch.bfloat16).to("mps")[1:]]
        params = [torch.nn.Parameter(torch.zeros_like(g)) for g in grads]
        for param, grad in zip(params, grads, strict=True):
            param.grad = grad
        found_inf = torch.zeros((), device="mps")
        multi_tensor_unscale_(grads, found_inf, torch.tensor(1 / 3, device="mps"))
        norm = clip_grad_norm_(params, 0.5)
        return [norm, found_inf, multi_tensor_non_finite(grads), *grads]

    same_under_freedom(compute)


@on_softmetal
def test_too_few_threads_are_an_error_not_another_result():
    from mps_ds import softmetal

    tensors = [torch.ones(4, device="mps")]
    with (
        softmetal.changed_settings(max_threads=128),
        pytest.raises(RuntimeError, match=r"norm_partials can have 128 threads .* it needs 256"),
    ):
        multi_tensor_l2norm(tensors)
