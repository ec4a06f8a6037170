"""adam_'s results do not depend on what Metal leaves open."""

import pytest
import torch

from mps_ds.ops import adam_

CHUNK = 8192


def tensors(sizes, dtype=torch.float32, strided=False):
    """Params, grads, exp_avgs, exp_avg_sqs, of ordinary values: no result is subnormal."""
    generator = torch.Generator().manual_seed(3)

    def one(n):
        values = torch.rand(n, generator=generator) + 0.5
        tensor = values.to(device="mps", dtype=dtype)
        return tensor.view(-1, 3).t() if strided and n % 3 == 0 else tensor

    return [[one(n) for n in sizes] for _ in range(4)]


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_results_are_the_same_bits(same_under_freedom, dtype, strided):
    def compute():
        lists = tensors([77, 3 * CHUNK + 6, 1, CHUNK], dtype, strided)
        for step in (1, 2):
            adam_(*lists, step, lr=1e-2, weight_decay=0.1)
        return lists

    same_under_freedom(compute)


def test_many_small_tensors(same_under_freedom):
    def compute():
        lists = tensors(range(1, 200, 7))
        adam_(*lists, 5, lr=1e-2)
        return lists

    same_under_freedom(compute)
