"""What adam_'s kernels move, and that their threads do not race."""

import pytest
import torch

from mps_ds.ops import adam_


def lists(sizes, dtype=torch.float32):
    return [[torch.rand(n, device="mps", dtype=dtype) for n in sizes] for _ in range(4)]


def only_kernel(trace):
    (kernel,) = trace.kernels.values()
    return kernel


def test_float32_moves_28_bytes_an_element(race_free):
    sizes = [77, 8192, 3 * 8192 + 5, 1]
    adam_(*lists(sizes), 1, lr=1e-3)
    assert only_kernel(race_free).declared.bytes == 28 * sum(sizes)


def test_aligned_tensors_are_read_four_elements_at_a_time(race_free):
    adam_(*lists([4096]), 1, lr=1e-3)
    traffic = only_kernel(race_free).declared
    assert (dict(traffic.read_widths), dict(traffic.write_widths)) == ({16: 4096}, {16: 3072})


@pytest.mark.parametrize("shape", [(64, 33), (7, 5, 130)])
def test_strided_tensors_do_not_race(race_free, shape):
    tensors = [[torch.rand(shape, device="mps").transpose(0, 1)] for _ in range(4)]
    tensors[1][0] = tensors[1][0].contiguous()
    adam_(*tensors, 1, lr=1e-3)
    assert only_kernel(race_free).declared.distinct == 28 * tensors[0][0].numel()
