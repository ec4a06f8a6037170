"""adam_ against float64, over sizes, layouts, options and values."""

import sys

import adam_reference as reference
import numpy as np
import pytest
import torch
from adam_reference import Options
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from mps_ds.ops import adam_

CHUNK = 1536  # ADAM_CHUNK of csrc/mps/kernels/adam_tables.h
BOUNDARIES = [0, 1, 3, 4, 5, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5]


def random_arrays(shape, seed: int) -> list[np.ndarray]:
    """Param, grad, exp_avg, exp_avg_sq of ordinary sizes."""
    rng = np.random.default_rng(seed)
    param, grad, exp_avg = (rng.standard_normal(shape, dtype=np.float32) for _ in range(3))
    return [param, grad, 0.1 * exp_avg, rng.random(shape, dtype=np.float32) * np.float32(0.01)]


def on(device, arrays) -> list[torch.Tensor]:
    return [torch.tensor(a, device=device) for a in arrays]


def run(tensors, step: int, options: Options) -> None:
    param, grad, exp_avg, exp_avg_sq = tensors
    adam_([param], [grad], [exp_avg], [exp_avg_sq], step, **vars(options))


def check(device, arrays, step: int, options: Options) -> dict[str, float]:
    tensors = on(device, arrays)
    run(tensors, step, options)
    return reference.assert_step([tensors[0], *tensors[2:]], arrays, step, options)


def bits(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().contiguous().numpy().view(np.uint32)


@pytest.mark.parametrize("adam_w_mode", [True, False])
@pytest.mark.parametrize("bias_correction", [True, False])
@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1, -0.01])
@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_every_mode_equals_float64(
    device, adam_w_mode, bias_correction, maximize, weight_decay, step
):
    options = Options(
        lr=1e-2,
        weight_decay=weight_decay,
        adam_w_mode=adam_w_mode,
        bias_correction=bias_correction,
        maximize=maximize,
    )
    check(device, random_arrays(1000, step), step, options)


@pytest.mark.parametrize("size", BOUNDARIES)
def test_sizes_around_every_boundary(device, size):
    check(device, random_arrays(size, size), 3, Options(weight_decay=0.01))


def test_a_zero_param_takes_the_whole_error_of_the_update(device):
    arrays = random_arrays(100_000, 0)
    arrays[0][:] = 0
    check(device, arrays, 5, Options(lr=0.1))


@pytest.mark.parametrize("betas", [(0.0, 0.0), (0.5, 0.5), (0.1, 0.2), (0.95, 0.98), (0.3, 0.9999)])
def test_any_betas(device, betas):
    check(device, random_arrays(100_000, 1), 2, Options(beta1=betas[0], beta2=betas[1]))


def zero_or(low: float, high: float) -> st.SearchStrategy[float]:
    return st.just(0.0) | st.floats(low, high)


# The range of docs/numerics.md, or 0.
MAGNITUDE = st.floats(2.0**-76, 2.0**60, width=32)
FINITE = npst.arrays(
    np.float32, 17, elements=st.just(0.0) | MAGNITUDE | MAGNITUDE.map(lambda x: -x)
)


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(
    param=FINITE,
    grad=FINITE,
    exp_avg=FINITE,
    exp_avg_sq=FINITE,
    step=st.integers(1, 10_000),
    options=st.builds(
        Options,
        lr=zero_or(1e-20, 1),
        beta1=zero_or(1e-6, 0.9999),
        beta2=zero_or(1e-6, 0.99999),
        eps=st.sampled_from([1e-8, 1e-6, 1e-3, 1.0]),
        weight_decay=st.sampled_from([0.0, 0.01, 0.5]),
        maximize=st.booleans(),
        bias_correction=st.booleans(),
    ),
)
def test_any_finite_values_equal_float64(param, grad, exp_avg, exp_avg_sq, step, options):
    arrays = [param, grad, exp_avg, np.abs(exp_avg_sq)]
    for device in ("mps", "cpu") if torch.backends.mps.is_available() else ("cpu",):
        check(device, arrays, step, options)


@pytest.mark.parametrize("magnitude", [1e-30, 1e-19, 1e-10, 1e10, 2e19, 5e20])
def test_squares_that_alone_would_overflow_or_vanish(device, magnitude):
    arrays = random_arrays(1000, 2)
    arrays[1] *= np.float32(magnitude)
    arrays[2][:] = arrays[3][:] = 0
    check(device, arrays, 1, Options())


@pytest.mark.parametrize("exponent", [-46, -42, -38])
def test_low_halves_of_small_means_of_squares_that_are_flushed(device, exponent):
    # Squares of about 2^-92, 2^-84 and 2^-76: attention key biases have such gradients.
    arrays = random_arrays(100_000, 5)
    arrays[1] *= np.float32(2.0**exponent)
    arrays[2] *= np.float32(2.0**exponent)
    arrays[3] *= np.float32(0.1 * 2.0 ** (2 * exponent))
    check(device, arrays, 4, Options())


def test_subnormals_are_kept_or_flushed_but_never_garbage(device):
    arrays = random_arrays(1000, 3)
    arrays[1] *= np.float32(1e-41)
    arrays[2] *= np.float32(1e-39)
    arrays[3] *= np.float32(1e-38)
    check(device, arrays, 4, Options(weight_decay=0.1))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_non_finite_gradient_shows_in_its_own_element_alone(device, value):
    arrays = random_arrays(101, 4)
    arrays[1][100] = value
    tensors = on(device, arrays)
    run(tensors, 1, Options())
    param, exp_avg, exp_avg_sq = (t.cpu().numpy() for t in (tensors[0], *tensors[2:]))
    assert np.isnan(param[100])
    if np.isnan(value):
        assert np.isnan(exp_avg[100])
        assert np.isnan(exp_avg_sq[100])
    else:
        assert exp_avg[100] == value
        assert exp_avg_sq[100] == np.inf
    assert all(np.isfinite(a[:100]).all() for a in (param, exp_avg, exp_avg_sq))


def test_without_weight_decay_an_infinite_param_does_not_reach_the_state(device):
    arrays = random_arrays(5, 5)
    arrays[0][2] = np.inf
    for adam_w_mode in (True, False):
        tensors = on(device, arrays)
        run(tensors, 1, Options(weight_decay=0.0, adam_w_mode=adam_w_mode))
        assert tensors[0][2].item() == np.inf
        assert all(torch.isfinite(t).all() for t in tensors[2:])


def test_adam_adds_weight_decay_to_the_gradient_and_adamw_does_not(device):
    # DeepSpeed#668, FlagGems#4988
    p, g = 2.0, 1.0
    for adam_w_mode, mean in ((False, 0.1 * (g + 0.1 * p)), (True, 0.1 * g)):
        tensors = on(device, [np.float32([x]) for x in (p, g, 0, 0)])
        run(tensors, 1, Options(weight_decay=0.1, adam_w_mode=adam_w_mode))
        assert tensors[2].item() == pytest.approx(mean, rel=1e-6)


def test_lists_of_no_tensors_do_nothing():
    adam_([], [], [], [], 1, lr=0.1)


@pytest.mark.parametrize("count", [1, 2000])
def test_lists(device, count):
    sizes = [1 + i % 37 for i in range(count)]
    lists = [on(device, random_arrays(n, i)) for i, n in enumerate(sizes)]
    adam_(*map(list, zip(*lists, strict=True)), 3, lr=1e-2)
    for i, (n, tensors) in enumerate(zip(sizes, lists, strict=True)):
        kept = [tensors[0], *tensors[2:]]
        reference.assert_step(kept, random_arrays(n, i), 3, Options(lr=1e-2))


def test_each_param_has_its_own_step_count(device):
    steps = [1, 50, 1, 2]
    lists = [on(device, random_arrays(100, i)) for i in range(4)]
    adam_(*map(list, zip(*lists, strict=True)), steps, lr=1e-2)
    for i, step in enumerate(steps):
        kept = [lists[i][0], *lists[i][2:]]
        reference.assert_step(kept, random_arrays(100, i), step, Options(lr=1e-2))


def test_views_at_odd_offsets_leave_the_rest_of_their_buffer_alone(device):
    arrays = random_arrays(4000, 6)
    flat = on(device, arrays)
    before = [bits(t).copy() for t in flat]
    lists, used, at = [], np.zeros(4000, bool), 3
    for n in (1, 7, 13, 101, 333, 1024):
        lists.append(([t[at : at + n] for t in flat], [a[at : at + n] for a in arrays]))
        used[at : at + n] = True
        at += n + at % 5 + 1
    adam_(*map(list, zip(*(views for views, _ in lists), strict=True)), 2, lr=1e-2)
    for views, slices in lists:
        reference.assert_step([views[0], *views[2:]], slices, 2, Options(lr=1e-2))
    for tensor, old in zip(flat, before, strict=True):
        np.testing.assert_array_equal(bits(tensor)[~used], old[~used])


def test_all_four_of_a_param_may_live_in_one_storage(device):
    arrays = random_arrays(100, 7)
    storage = torch.tensor(np.concatenate(arrays), device=device)
    tensors = list(storage.split(100))
    run(tensors, 1, Options())
    reference.assert_step([tensors[0], *tensors[2:]], arrays, 1, Options())


LAYOUTS = {
    "contiguous": lambda t: t.clone(),
    "transposed": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
    "permuted": lambda t: t.permute(2, 0, 3, 1).contiguous().permute(1, 3, 0, 2),
    "channels_last": lambda t: t.contiguous(memory_format=torch.channels_last),
    "every other": lambda t: t.repeat_interleave(2, -1)[..., ::2],
    "sliced": lambda t: torch.nn.functional.pad(t, (1, 2, 3, 1))[..., 3:-1, 1:-2],
}


@pytest.mark.parametrize("grad_layout", LAYOUTS)
@pytest.mark.parametrize("param_layout", LAYOUTS)
def test_elements_pair_logically_whatever_the_strides(device, param_layout, grad_layout):
    arrays = random_arrays((2, 3, 5, 4), 8)
    tensors = on(device, arrays)
    tensors[0] = LAYOUTS[param_layout](tensors[0])
    tensors[1] = LAYOUTS[grad_layout](tensors[1])
    tensors[3] = LAYOUTS[param_layout](tensors[3])
    strides = [t.stride() for t in tensors]
    run(tensors, 1, Options(weight_decay=0.1))
    reference.assert_step([tensors[0], *tensors[2:]], arrays, 1, Options(weight_decay=0.1))
    assert [t.stride() for t in tensors] == strides


def test_an_expanded_gradient(device):
    arrays = random_arrays((3, 4), 9)
    arrays[1] = np.broadcast_to(np.float32(0.25), (3, 4))
    tensors = on(device, [arrays[0], np.float32(0.25), arrays[2], arrays[3]])
    tensors[1] = tensors[1].expand(3, 4)
    run(tensors, 1, Options())
    reference.assert_step([tensors[0], *tensors[2:]], arrays, 1, Options())


def test_strides_of_dimensions_of_size_one_mean_nothing(device):
    # pytorch#106951, #110758
    arrays = random_arrays((2, 1, 100), 10)
    tensors = on(device, arrays)
    tensors[1] = tensors[1].as_strided((2, 1, 100), (100, 1, 1))
    run(tensors, 1, Options())
    reference.assert_step([tensors[0], *tensors[2:]], arrays, 1, Options())


def test_tensors_without_dimensions_and_without_elements(device):
    arrays = [np.float32(x) for x in (1.5, -0.5, 0.1, 0.01)]
    check(device, arrays, 2, Options())
    empty = [torch.empty(0, 3, device=device) for _ in range(4)]
    run(empty, 1, Options())


def test_interleaved_params_are_no_overlap(device):
    arrays = random_arrays(200, 11)
    flat = on(device, arrays)
    even, odd = ([t[i::2] for t in flat] for i in (0, 1))
    adam_(*([a, b] for a, b in zip(even, odd, strict=True)), 1, lr=1e-2)
    reference.assert_step([flat[0], *flat[2:]], arrays, 1, Options(lr=1e-2))


@pytest.mark.skipif(not torch.backends.mps.is_available(), reason="compares two devices")
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("adam_w_mode", [True, False])
def test_mps_and_cpu_agree_bit_for_bit(adam_w_mode, weight_decay):
    # Ordinary values: an Apple GPU flushes subnormals, a CPU does not.
    results = []
    for device in ("mps", "cpu"):
        tensors = on(device, random_arrays(3 * CHUNK + 5, 12))
        for step in range(1, 6):
            options = Options(weight_decay=weight_decay, adam_w_mode=adam_w_mode)
            run(tensors, step, options)
        results.append([bits(t) for t in tensors])
    for mps, cpu in zip(*results, strict=True):
        np.testing.assert_array_equal(mps, cpu)


@pytest.mark.skipif(sys.platform != "linux", reason="a setting of the software device")
@pytest.mark.skipif(not torch.backends.mps.is_available(), reason="needs the mps device")
def test_the_order_of_threads_changes_no_bit():
    from mps_ds import softmetal

    results = []
    for order in (softmetal.Order.FORWARD, softmetal.Order.REVERSE):
        tensors = on("mps", random_arrays(3 * CHUNK + 5, 14))
        with softmetal.changed_settings(order=order):
            run(tensors, 2, Options(weight_decay=0.1))
            torch.mps.synchronize()
        results.append([bits(t) for t in tensors])
    for forward, reverse in zip(*results, strict=True):
        np.testing.assert_array_equal(forward, reverse)


def test_a_stale_backward_raises(device):
    param = torch.ones(4, device=device, requires_grad=True)
    loss = (param * param).sum()
    zeros = [torch.zeros(4, device=device) for _ in range(2)]
    adam_([param], [torch.ones(4, device=device)], [zeros[0]], [zeros[1]], 1, lr=0.1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


# lr, beta1, beta2, eps, weight_decay, adam_w_mode, bias_correction, maximize, clip_value
NUMBERS = [0.1, 0.9, 0.99, 1e-8, 0.1, 1.0, 1.0, 0.0, float("inf")]


def operator_arguments(device, *shapes, full=False):
    """Arguments of torch.ops.mps_ds.adam_; `full`: with every optional one."""
    lists = [on(device, random_arrays(s, i)) for i, s in enumerate(shapes)]
    params, grads, exp_avgs, exp_avg_sqs = map(list, zip(*lists, strict=True))
    if not full:
        steps = ([], [], [], [], [], [1], NUMBERS, [])
        return (params, grads, exp_avgs, exp_avg_sqs, *steps, None, None, None, None, None)
    largest = [exp_avg_sqs[0].clone()]
    copies = [p.to(torch.bfloat16) for p in params]
    counts = [torch.zeros((), device=device) for _ in params]
    scalars = [torch.ones((), device=device) for _ in range(5)]
    return (params, grads, exp_avgs, exp_avg_sqs, largest, [0], copies, counts,
            [0] * len(params), [], NUMBERS, scalars[:1], *scalars[1:], None)  # fmt: skip


@pytest.mark.parametrize("full", [False, True])
def test_every_written_tensor_gets_a_new_version_and_no_other(device, full):
    arguments = operator_arguments(device, (4,), (2, 3), full=full)
    tensors = [t for a in arguments[:8] for t in a if isinstance(t, torch.Tensor)]
    versions = [t._version for t in tensors]
    torch.ops.mps_ds.adam_(*arguments)
    grads = {id(t) for t in arguments[1]}
    bumped = [t._version > v for t, v in zip(tensors, versions, strict=True)]
    assert bumped == [id(t) not in grads for t in tensors]


def test_opcheck(device):
    for shapes in (((4,),), ((2, 3), (5,))):
        for full in (False, True):
            arguments = operator_arguments(device, *shapes, full=full)
            torch.library.opcheck(torch.ops.mps_ds.adam_.default, arguments)
