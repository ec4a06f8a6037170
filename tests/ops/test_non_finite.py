"""Overflow checks: every place, every type, and nothing that only looks like an overflow."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from norm_reference import BOUNDARIES, DTYPES, values

from mps_ds.ops import multi_tensor_non_finite, norm_and_non_finite

DEVICES = ["mps", "cpu"] if torch.backends.mps.is_available() else ["cpu"]


def found(tensors) -> bool:
    """What both operations say, after they were made to agree."""
    found_inf = multi_tensor_non_finite(tensors)
    assert found_inf.shape == ()
    assert found_inf.dtype == torch.float32
    assert found_inf.item() in (0.0, 1.0)
    assert norm_and_non_finite(tensors)[1].item() == found_inf.item()
    return found_inf.item() == 1.0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_the_last_element_of_any_size(device, dtype, bad):
    for size in [s for s in BOUNDARIES if s > 0]:
        tensor = torch.ones(size, dtype=dtype, device=device)
        assert not found([tensor])
        tensor[-1] = bad
        assert found([tensor]), size


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_any_place(device, dtype):
    for place in [*range(40), 4095, 4096, 20_000]:
        tensor = torch.zeros(20_001, dtype=dtype, device=device)
        tensor[place] = math.nan
        assert found([tensor]), place


def test_any_tensor_of_a_list(device):
    tensors = [torch.ones(1 + i % 5, dtype=DTYPES[i % 3], device=device) for i in range(600)]
    assert not found(tensors)
    for place in (0, 1, 300, 599):
        tensors[place][-1] = math.inf
        assert found(tensors)
        tensors[place][-1] = 1.0


def of_bits(pattern: int, dtype) -> torch.Tensor:
    integer = torch.int32 if dtype == torch.float32 else torch.int16
    width = 32 if dtype == torch.float32 else 16
    signed = pattern - (1 << width) if pattern >> (width - 1) else pattern
    return torch.tensor([signed], dtype=integer).view(dtype)


@pytest.mark.parametrize(
    ("pattern", "dtype", "expected"),
    [
        (0x7C00, torch.float16, True),
        (0xFC00, torch.float16, True),
        (0x7C01, torch.float16, True),  # signalling NaN, smallest payload
        (0x7BFF, torch.float16, False),  # 65504
        (0x0001, torch.float16, False),
        (0x7F80, torch.bfloat16, True),
        (0xFF80, torch.bfloat16, True),
        (0x7F81, torch.bfloat16, True),
        (0x7F7F, torch.bfloat16, False),
        (0x0001, torch.bfloat16, False),  # a subnormal float32, in the end
        (0x7F800000, torch.float32, True),
        (0x7F800001, torch.float32, True),
        (0xFFC00000, torch.float32, True),
        (0x7F7FFFFF, torch.float32, False),
        (0x00000001, torch.float32, False),
        (0x80000001, torch.float32, False),
        (0x00000000, torch.float32, False),
    ],
)
def test_bit_patterns(device, pattern, dtype, expected):
    for size in (1, 9, 4099):
        tensor = of_bits(pattern, dtype).repeat(size).to(device)
        assert found([tensor]) == expected


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_all_patterns_of_16_bits(device, dtype):
    patterns = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    finite = patterns[patterns.isfinite()]
    assert not found([finite.to(device)])
    others = patterns[~patterns.isfinite()].to(device)
    _, found_inf = norm_and_non_finite(list(others.split(1)), in_norm=[0] * len(others))
    assert found_inf.item() == 1.0
    for other in others[:: len(others) // 50].split(1):
        assert found([other])


def test_finite_values_whose_sum_is_not(device):
    # A check that sums, as DeepSpeed's does, sees an overflow here.
    assert not found([torch.full((100,), 3e38, device=device)])
    assert not found([torch.full((100,), 60000.0, device=device).half()])


def test_nothing_is_finite():
    assert multi_tensor_non_finite([]).item() == 0.0


def test_no_elements_are_finite(device):
    assert not found([torch.empty(0, device=device), torch.empty(3, 0, device=device)])


def test_views_see_their_own_elements_only(device):
    memory = torch.full((10, 8), math.nan, device=device)
    memory[:, ::2] = 1.0
    assert not found([memory[:, ::2]])
    assert not found([memory.t()[::2, 3:]])
    assert found([memory.t()[1:2]])


@settings(deadline=None, max_examples=80)
@given(
    elements=st.lists(st.floats(width=16), min_size=1, max_size=70),
    dtype=st.sampled_from(DTYPES),
)
def test_any_values(elements, dtype):
    tensor = torch.tensor(elements, dtype=torch.float32).to(dtype)
    for device in DEVICES:
        assert found([values(5).to(device), tensor.to(device)]) == (
            not tensor.isfinite().all().item()
        )
