"""Norms against float64: sizes, magnitudes, types, layouts, groups."""

import math

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from norm_reference import BOUNDARIES, DTYPES, bits, exact, ulps, values

from mps_ds.ops import multi_tensor_l2norm, norm_and_non_finite

ULPS = 2  # the bound of docs/norms.md
DEVICES = ["mps", "cpu"] if torch.backends.mps.is_available() else ["cpu"]
NORM_TYPES = [2.0, math.inf]


def check(tensors, device, norm_type=2.0) -> torch.Tensor:
    """Total and per-tensor norms are right; gives the total."""
    total, norms = multi_tensor_l2norm([t.to(device) for t in tensors], True, norm_type=norm_type)
    assert total.dtype == norms.dtype == torch.float32
    assert total.shape == ()
    assert norms.shape == (len(tensors),)
    bound = ULPS if norm_type == 2.0 else 0
    assert ulps(total, exact(tensors, norm_type)) <= bound
    for tensor, norm in zip(tensors, norms, strict=True):
        assert ulps(norm, exact([tensor], norm_type)) <= bound
    return total


@pytest.mark.parametrize("norm_type", NORM_TYPES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sizes_around_every_boundary(device, dtype, norm_type):
    check([values(n, dtype, n) for n in BOUNDARIES], device, norm_type)


@pytest.mark.parametrize("norm_type", NORM_TYPES)
def test_types_mix_in_one_list(device, norm_type):
    tensors = [values(n, DTYPES[n % 3], n) for n in range(60)]
    check(tensors, device, norm_type)


@pytest.mark.parametrize(
    ("tensors", "norm"),
    [
        ([1e20 * torch.ones(4)], 2e20),
        ([1e-30 * torch.ones(4)], 2e-30),
        ([(300 * torch.ones(4)).half()], 600.0),
        ([torch.full((4,), 65504.0).half()], 131008.0),
        ([torch.full((16,), 3e38).bfloat16()], math.inf),
        ([torch.tensor([3e38])], 3e38),
        ([torch.tensor([3e38, 3e38])], math.inf),
        ([torch.tensor([1e-37, 0.0])], 1e-37),
        ([torch.tensor([2.0**-126])], 2.0**-126),
        ([torch.empty(0), torch.ones(3)], math.sqrt(3)),  # DeepSpeed#8279, #8297, #8467
        ([torch.empty(0), torch.empty(2, 0)], 0.0),
        ([torch.zeros(1000)], 0.0),
    ],
    ids=str,
)
def test_squares_neither_overflow_nor_vanish(device, tensors, norm):
    tensors = [t.to(device) for t in tensors]
    got = multi_tensor_l2norm(tensors)
    assert got.dtype == torch.float32
    assert got.device.type == device.type
    assert ulps(got, norm if norm < 3.4e38 else math.inf) <= ULPS or got.item() == norm
    norm_again, found_inf = norm_and_non_finite(tensors)
    assert bits(norm_again) == bits(got)
    assert found_inf.item() == 0.0  # the elements are finite, whatever their norm is


def test_nothing_has_norm_0():
    # DeepSpeed#3564
    assert multi_tensor_l2norm([]).item() == 0.0
    total, norms = multi_tensor_l2norm([], per_tensor=True)
    assert total.item() == 0.0
    assert norms.shape == (0,)
    assert [t.item() for t in norm_and_non_finite([])] == [0.0, 0.0]


def test_a_linear_layer_without_outputs(device):
    layer = torch.nn.Linear(8, 0, device=device)
    assert multi_tensor_l2norm(list(layer.parameters())).item() == 0.0


@pytest.mark.parametrize("exponent", [-120, -80, -63, -40, 0, 40, 44, 62, 80, 100, 120])
def test_every_scale_and_its_neighbours(device, exponent):
    # Magnitudes that fall on both sides of where the kernel changes its scale, in one tensor.
    factors = 2.0 ** torch.arange(-6, 7).repeat(400)
    check([values(factors.shape, seed=exponent) * factors * 2.0**exponent], device)


def test_magnitudes_from_end_to_end(device):
    exponents = torch.arange(-126, 128, dtype=torch.float64)
    spread = (values(exponents.shape).double().clamp(-0.9, 0.9) * 2.0**exponents).float()
    for first in range(0, 254, 16):
        check([spread[: first + 1], spread[first:], spread.flip(0)[first:]], device)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_many_equal_terms_do_not_drift(device, dtype):
    # A plain fp32 sum is 1e-3 off here: all roundings go the same way.
    check([torch.full((3_000_001,), 1.1, dtype=dtype)], device)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sums_of_exact_blocks_are_rounded_once(device, dtype):
    # Numbers so short that the sum of a block is exact: what remains is adding blocks. All are
    # equal, so that what the threads lose does not cancel.
    largest = {torch.float32: 2048, torch.float16: 1448, torch.bfloat16: 256}[dtype]
    for number in range(largest // 2 + 1, largest, largest // 40):
        tensor = torch.full((8192,), float(number), dtype=dtype)
        assert ulps(multi_tensor_l2norm([tensor.to(device)]), exact([tensor])) <= 0.5001, number


def test_small_terms_beside_a_large_one(device):
    tensor = torch.full((1_000_000,), 2.0**-13)
    tensor[0] = 1.0  # a plain fp32 sum of squares stays 1
    check([tensor], device)


def test_thousands_of_tensors(device):
    check([values(1 + i % 37, DTYPES[i % 3], i) for i in range(4000)], device)


def layouts(base: torch.Tensor) -> dict[str, torch.Tensor]:
    """Views of a (4, 6, 10) tensor, each with other strides."""
    return {
        "transposed": base.transpose(0, 2),
        "every other": base[..., ::2],
        "every other row": base[:, ::2],
        "inner slice": base[1:3, 1:5, 3:8],
        "expanded": base[:1].expand(5, 6, 10),
        "overlapping": base.as_strided((7, 9), (3, 5)),
        "permuted slice": base.permute(1, 2, 0)[1:, 2:],
        "channels_last": base[None].contiguous(memory_format=torch.channels_last),
        "size 1": base[:1, :1, :1],
    }


@pytest.mark.parametrize("norm_type", NORM_TYPES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_any_strides(device, dtype, norm_type):
    views = layouts(values((4, 6, 10), dtype).to(device))
    total, norms = multi_tensor_l2norm(list(views.values()), True, norm_type=norm_type)
    for (name, view), norm in zip(views.items(), norms, strict=True):
        assert ulps(norm, exact([view], norm_type)) <= ULPS, name
    assert ulps(total, exact(list(views.values()), norm_type)) <= ULPS


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_offset_changes_no_bit(device, dtype):
    memory = values(20_020, dtype).to(device)
    for offset in range(1, 17):
        view = memory[offset : offset + 20_003]
        assert bits(multi_tensor_l2norm([view])) == bits(multi_tensor_l2norm([view.clone()]))


def test_a_dense_layout_changes_no_bit(device):
    tensor = values((40, 50, 60)).to(device)
    views = [tensor, tensor.permute(2, 0, 1), tensor.flatten()]
    assert len({bits(multi_tensor_l2norm([v]))[0] for v in views}) == 1


@pytest.mark.parametrize("norm_type", NORM_TYPES)
def test_groups_have_norms_of_their_own(device, norm_type):
    tensors = [values(n, DTYPES[n % 3], n) for n in range(1, 31)]
    groups = [(7 * n) % 5 for n in range(30)]
    norms, found_inf = norm_and_non_finite(
        [t.to(device) for t in tensors], groups, norm_type=norm_type
    )
    assert norms.shape == (5,)
    assert found_inf.shape == ()
    for group, norm in enumerate(norms):
        members = [t for t, g in zip(tensors, groups, strict=True) if g == group]
        assert ulps(norm, exact(members, norm_type)) <= ULPS


def test_a_group_without_tensors_has_norm_0(device):
    norms, _ = norm_and_non_finite([torch.ones(4, device=device)], groups=[2])
    assert norms.tolist() == [0.0, 0.0, 2.0]
    norms, _ = norm_and_non_finite([torch.ones(4, device=device)], groups=[1], in_norm=[False])
    assert norms.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("groups", [None, [0, 1, 0, 1]])
def test_what_is_left_out_of_the_norm_still_counts_for_found_inf(device, groups):
    tensors = [torch.full((5,), x, device=device) for x in (1.0, 2.0, 3.0, math.inf)]
    norms, found_inf = norm_and_non_finite(tensors, groups, in_norm=[True, 1, 0, False])
    assert found_inf.item() == 1.0
    expected = [5.0**0.5, 20.0**0.5] if groups else [5.0]
    np.testing.assert_allclose(norms.cpu().flatten(), expected, rtol=1e-7)
    _, found_inf = norm_and_non_finite(tensors[:3], None, in_norm=[1, 0, 0])
    assert found_inf.item() == 0.0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("norm_type", NORM_TYPES)
def test_what_is_not_finite_passes_on(device, dtype, bad, norm_type):
    tensors = [torch.ones(n, dtype=dtype, device=device) for n in (3, 4097, 70_000)]
    tensors[1][-1] = bad
    total, norms = multi_tensor_l2norm(tensors, True, norm_type=norm_type)
    for norm in (total, norms[1]):
        assert math.isnan(norm.item()) if math.isnan(bad) else norm.item() == math.inf
    assert norms[[0, 2]].isfinite().all()


def test_nan_beside_infinity_is_nan(device):
    tensors = [torch.tensor([math.inf, 1.0]), torch.tensor([math.nan, 1.0])]
    for norm_type in NORM_TYPES:
        norm = multi_tensor_l2norm([t.to(device) for t in tensors], norm_type=norm_type)
        assert math.isnan(norm.item())


def test_subnormals_of_16_bits_count(device):
    # float16 has them far above what a GPU flushes.
    check([torch.full((100,), 2.0**-24).half()], device)


def test_subnormals_are_kept_on_the_cpu():
    tensor = torch.tensor([2.0**-149, 2.0**-140, 3 * 2.0**-149])
    assert multi_tensor_l2norm([tensor]).item() == pytest.approx(exact([tensor]), abs=2.0**-149)


FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    arrays=st.lists(
        st.tuples(st.lists(FINITE, max_size=40), st.sampled_from(DTYPES)), min_size=1, max_size=5
    ),
    repeats=st.sampled_from([1, 3, 300]),
)
def test_any_finite_values(arrays, repeats):
    tensors = [torch.tensor(x, dtype=torch.float32).repeat(repeats).to(t) for x, t in arrays]
    tensors = [torch.where(t.isfinite(), t, torch.zeros_like(t)) for t in tensors]  # of the casts
    for device in DEVICES:
        norm = multi_tensor_l2norm([t.to(device) for t in tensors])
        wanted = exact(tensors)
        too_large = wanted > 3.4028e38  # either answer, where 2 ulp decide
        assert ulps(norm, wanted) <= ULPS or (too_large and norm.item() > 3.4028e38)


SHAPES = st.lists(st.integers(0, 7), max_size=4).map(tuple)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(shape=SHAPES, dtype=st.sampled_from(DTYPES), data=st.data())
def test_any_shape_and_strides(shape, dtype, data):
    order = data.draw(st.permutations(range(len(shape))))
    steps = [data.draw(st.integers(1, 3)) for _ in shape]
    base = values([s * k for s, k in zip(shape, steps, strict=True)], dtype)
    view = base[tuple(slice(None, None, k) for k in steps)].permute(order)
    for device in DEVICES:
        moved = base.to(device)[tuple(slice(None, None, k) for k in steps)].permute(order)
        assert ulps(multi_tensor_l2norm([moved]), exact([view])) <= ULPS


def test_a_scale_without_gradients_is_refused_by_the_operator(device):
    with pytest.raises(RuntimeError, match="grads is empty, and grad_scale is given"):
        torch.ops.mps_ds._grad_norm([], torch.ones((), device=device), 1.0, 2.0)
