"""The overflow checks and norms that replace DeepSpeed's own answer what those answer.

`__wrapped__` is DeepSpeed's own. It is asked with CPU tensors: what is compared are the rules, and
float64 where fp32 squares overflow. Optimizers are stood for by objects with the attributes that
the functions read; the real ones are in test_training.py.
"""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

INF, NAN = float("inf"), float("nan")
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def bad_tensors(dtype):
    """(tensor, whether something in it is not finite)"""
    largest = torch.finfo(dtype).max
    for count in (1, 4, 5, 1025):
        for last in (INF, -INF, NAN, largest, -largest, 0.0):
            x = torch.ones(count, dtype=dtype)
            x[-1] = last
            yield x, not math.isfinite(last)
    yield torch.full((9,), largest, dtype=dtype), False  # a sum of these is infinite
    yield torch.empty(0, dtype=dtype), False
    yield torch.tensor(NAN, dtype=dtype), True
    yield torch.ones(4, 4, dtype=dtype).t()[1:], False


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_has_inf_or_nan(enabled, dtype) -> None:
    from deepspeed.runtime import utils
    from deepspeed.runtime.fp16 import loss_scaler
    from deepspeed.runtime.zero import stage3, stage_1_and_2

    for module in (utils, loss_scaler, stage3, stage_1_and_2):
        for x, answer in bad_tensors(dtype):
            told = module.has_inf_or_nan(x.to("mps"))
            assert told.device.type == "mps"
            assert told.dtype == torch.bool
            assert bool(told) == answer == bool(utils.has_inf_or_nan.__wrapped__(x))


def test_has_inf_or_nan_of_what_our_kernels_do_not_take(enabled) -> None:
    from deepspeed.runtime.utils import has_inf_or_nan

    assert not has_inf_or_nan(torch.eye(3).to_sparse())
    assert has_inf_or_nan((torch.eye(3) * INF).nan_to_num(0, posinf=INF).to_sparse())
    assert has_inf_or_nan(torch.tensor([NAN], dtype=torch.float64))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("which", ["CheckOverflow", "DynamicLossScaler"])
def test_overflow_of_params(one_process, which, dtype) -> None:
    from deepspeed.runtime.fp16.loss_scaler import DynamicLossScaler
    from deepspeed.runtime.utils import CheckOverflow

    for bad, answer in bad_tensors(dtype):
        params = [torch.nn.Parameter(torch.ones_like(bad)) for _ in range(3)]
        params = [torch.nn.Parameter(p.detach().to("mps")) for p in params]
        params[0].grad = torch.ones_like(params[0])
        params[2].grad = bad.to("mps")  # and one without a gradient
        if which == "CheckOverflow":
            check = CheckOverflow([params])
            assert check.has_overflow(params) is answer
            assert check.check() is answer
        else:
            scaler = DynamicLossScaler(2.0, 100, 1, 1, False)
            assert scaler.has_overflow_serial(params) is answer


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_overflow_of_partitions(enabled, dtype) -> None:
    from deepspeed.runtime.zero.stage_1_and_2 import DeepSpeedZeroOptimizer as Zero

    for bad, answer in bad_tensors(dtype):
        grads = {0: [torch.ones(3, device="mps"), None], 1: [bad.to("mps")]}
        stands_for = SimpleNamespace(bit16_groups=[0, 1], averaged_gradients=grads)
        told = Zero.has_overflow_partitioned_grads_serial(stands_for)
        assert (told.shape, told.device.type, told.dtype) == ((1,), "mps", torch.bool)
        assert bool(told) is answer


@pytest.mark.parametrize("device", ["mps", "cpu"])
@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_overflow_of_the_flat_buffer(one_process, dtype, tracked, device) -> None:
    from deepspeed.runtime.zero.stage3 import DeepSpeedZeroOptimizer_Stage3 as Zero3

    for bad, answer in bad_tensors(dtype):
        stands_for = SimpleNamespace(
            grad_partitions_flat_buffer=bad.to(device),
            inf_or_nan_tracker=torch.tensor([tracked], device=device).squeeze(),
            dp_process_group=None,
            _model_parallel_all_reduce=lambda tensor, op: None,
        )
        assert Zero3.has_overflow(stands_for) is (answer or tracked)
        assert not stands_for.inf_or_nan_tracker, "a step later it starts anew"


def exact_norm(grads) -> float:
    return math.sqrt(sum(g.cpu().double().square().sum().item() for g in grads))


def within(norm: torch.Tensor, expected: float, ulps: int = 4) -> bool:
    if expected == 0:
        return norm.item() == 0
    unit = torch.finfo(torch.float32).eps * 2 ** math.floor(math.log2(expected))
    return abs(norm.item() - expected) <= ulps * unit


def params_and_grads(scale=1.0):
    """Params with what DeepSpeed marks them with, and whether their gradients count once."""
    generator = torch.Generator().manual_seed(0)
    marks = [{}, {"ds_pipe_replicated": True}, {"model_parallel": True}, {}]
    params, grads = [], []
    for i, mark in enumerate(marks):
        dtype = DTYPES[i % 3]
        p = torch.nn.Parameter(torch.zeros(50 + i, device="mps", dtype=dtype))
        for name, value in mark.items():
            setattr(p, name, value)
        params.append(p)
        grads.append((torch.randn(50 + i, generator=generator) * scale).to("mps", dtype))
    return params, grads


def zero_optimizer(rank: int) -> SimpleNamespace:
    return SimpleNamespace(
        dp_process_group=None,
        device="mps",
        model_parallel_rank=rank,
        _model_parallel_all_reduce=lambda tensor, op: None,
        _assert_same_partition_group=lambda params: None,
        _get_param_partition_group=lambda param: None,
        _autoep_expert_parallel_group=lambda params: None,
        _grad_norm_counts_every_rank=lambda params, group: False,
    )


@pytest.mark.parametrize("rank", [0, 1])
def test_which_gradients_count_in_zero_1_and_2(one_process, rank) -> None:
    import deepspeed
    from deepspeed.runtime.zero.stage_1_and_2 import DeepSpeedZeroOptimizer as Zero

    params, grads = params_and_grads()
    padding = torch.full((9,), 5.0, device="mps")
    padding._zero_padding = True
    told = Zero.get_grad_norm_direct(zero_optimizer(rank), [padding, *grads], params)
    counted = [grads[0], grads[2], grads[3]] if rank == 0 else [grads[2]]
    assert within(told, exact_norm(counted))
    if deepspeed.__version__.startswith("0.19.6"):
        return  # its own pairs the padding with the first param, and so each gradient with another
    own = Zero.get_grad_norm_direct.__wrapped__
    assert within(own(zero_optimizer(rank), [padding, *grads], params), told.item(), 8)


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("rank", [0, 1])
def test_which_gradients_count_in_zero_3(one_process, rank, every) -> None:
    from deepspeed.runtime.zero.stage3 import DeepSpeedZeroOptimizer_Stage3 as Zero3

    params, grads = params_and_grads()
    optimizer = zero_optimizer(rank)
    optimizer._grad_norm_counts_every_rank = lambda params, group: every
    told = Zero3.get_grad_norm_direct(optimizer, grads, params)
    counted = grads if rank == 0 or every else [grads[2]]
    assert within(told, exact_norm(counted))


def both_norms():
    from deepspeed.runtime.zero.stage3 import DeepSpeedZeroOptimizer_Stage3 as Zero3
    from deepspeed.runtime.zero.stage_1_and_2 import DeepSpeedZeroOptimizer as Zero

    return [Zero.get_grad_norm_direct, Zero3.get_grad_norm_direct]


@pytest.mark.parametrize("bad", [INF, -INF, NAN])
def test_a_norm_that_is_not_finite_is_minus_one(one_process, bad) -> None:
    for norm in both_norms():
        params, grads = params_and_grads()
        grads[3][7] = bad
        assert norm(zero_optimizer(0), grads, params).item() == -1
        grads[3][7] = 1
        assert norm(zero_optimizer(0), grads, params).item() > 0


def test_norms_of_nothing_of_other_orders_and_of_what_is_small(one_process) -> None:
    for norm in both_norms():
        params, grads = params_and_grads()
        optimizer = zero_optimizer(0)
        assert norm(optimizer, [torch.zeros(3, device="mps")], params[:1]).item() == 0
        largest = norm(optimizer, grads, params, norm_type=INF)
        assert largest.item() == max(g.abs().max().item() for g in grads)
        tiny = [torch.full((4,), 1e-18, device="mps")]
        assert within(norm(optimizer, tiny, params[:1]), exact_norm(tiny))


def without_zero(grads: list[torch.Tensor], norm_type: float = 2) -> list[float]:
    """What the two functions that serve training without ZeRO tell of the gradients."""
    from deepspeed.runtime.utils import get_flattened_grad_norm, get_global_norm_of_tensors

    params = [torch.nn.Parameter(torch.zeros_like(g)) for g in grads]
    for p, g in zip(params, grads, strict=True):
        p.grad = g
    params.append(torch.nn.Parameter(torch.zeros(3, device="mps")))  # without a gradient
    masks = [torch.empty(0, 2, dtype=torch.long, device="mps")] * len(grads)
    flattened = get_flattened_grad_norm(params, norm_type, grad_norm_mask=masks)
    assert isinstance(flattened, (float, int))
    of_tensors = get_global_norm_of_tensors(grads, norm_type)
    assert of_tensors.device == grads[0].device
    assert of_tensors.dim() == 0
    return [flattened, of_tensors.item()]


@pytest.mark.parametrize("scale", [1.0, 1e-18, 1e17])
def test_norms_without_zero(one_process, scale) -> None:
    grads = [g.float() * scale for g in params_and_grads()[1]]
    for told in without_zero(grads):
        assert within(torch.tensor(told), exact_norm(grads))
    if scale == 1:
        _, grads = params_and_grads()
        for told in without_zero(grads):
            assert within(torch.tensor(told), exact_norm(grads))
        assert without_zero(grads, INF) == [max(g.abs().max().item() for g in grads)] * 2
    for bad in (INF, NAN):
        grads[2][0] = bad
        assert without_zero(grads) == [-1, -1]


def test_what_a_mask_leaves_out_does_not_count(one_process) -> None:
    from deepspeed.runtime.utils import get_flattened_grad_norm

    p = torch.nn.Parameter(torch.zeros(4, device="mps"))
    p.grad = torch.tensor([3.0, 100.0, 100.0, 4.0], device="mps")
    ranges = torch.tensor([[1, 3]], device="mps")
    assert get_flattened_grad_norm([p], grad_norm_mask=[ranges]) == 5


@pytest.mark.parametrize("max_norm", [0.25, 1e9])
def test_clipping(one_process, max_norm) -> None:
    from deepspeed.runtime.utils import clip_grad_norm_
    from deepspeed.utils import groups

    groups._get_data_parallel_group()  # of the one process
    params, grads = params_and_grads()
    for p, g in zip(params, grads, strict=True):
        p.grad = g.clone()
    without = torch.nn.Parameter(torch.zeros(3, device="mps"))
    told = clip_grad_norm_([*params, without], max_norm)
    norm = exact_norm(grads)
    assert within(told, norm)
    assert without.grad is None
    for p, g in zip(params, grads, strict=True):
        expected = g.cpu().double() * min(1.0, max_norm / (norm + 1e-6))
        # The coefficient has the norm's 4 ulp and its own roundings; then one rounding to the type.
        unit = torch.finfo(p.dtype).eps
        bound = expected.abs() * (unit / 2 + 8 * 2.0**-23) + torch.finfo(p.dtype).smallest_normal
        assert (p.grad.cpu().double() - expected).abs().le(bound).all()
        if max_norm > norm:
            assert torch.equal(p.grad, g)


def test_clipping_by_another_norm_is_deepspeeds_own(one_process) -> None:
    from deepspeed.runtime.utils import clip_grad_norm_

    p = torch.nn.Parameter(torch.zeros(2, device="mps"))
    p.grad = torch.tensor([3.0, -4.0], device="mps")
    assert clip_grad_norm_([p], 2.0, norm_type=INF).item() == 4
    assert p.grad.tolist() == pytest.approx([1.5, -2.0], rel=1e-6)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_norms_of_single_gradients_under_offload(enabled, dtype) -> None:
    from deepspeed.runtime.zero.stage3 import DeepSpeedZeroOptimizer_Stage3 as Zero3
    from deepspeed.runtime.zero.stage_1_and_2 import DeepSpeedZeroOptimizer as Zero

    grad = torch.randn(6, 50, generator=torch.Generator().manual_seed(0)).to("mps", dtype)
    assert within(Zero3._constant_buffered_norm2(None, grad), exact_norm([grad]))
    param = torch.nn.Parameter(torch.zeros(6, 50, device="mps", dtype=dtype))
    param.grad = grad
    for accumulated in (None, grad * 2):
        stands_for = SimpleNamespace(
            get_param_id=lambda param: 7,
            get_param_gradient_attribute=lambda param, value=accumulated: value,
            grad_position={7: [0, 13, 99, 101]},  # group, where in the gradient, where to, length
            norm_for_param_grads={},
        )
        Zero.set_norm_for_param_grad_in_gpu(stands_for, param)
        part = (grad if accumulated is None else accumulated).flatten()[13:114]
        assert within(stands_for.norm_for_param_grads[7], exact_norm([part]))


def odd_grads() -> list[torch.Tensor]:
    """What the kernels refuse, and a dense one on mps beside it. Together of norm 9."""
    duplicates = torch.sparse_coo_tensor([[0, 2, 0]], [1.0, -4.0, 1.0], (3,), check_invariants=True)
    return [
        duplicates,  # (2, 0, -4)
        torch.tensor([0.0, 5.0]).to_sparse(),
        torch.tensor([0.0, 4.0], dtype=torch.float64),
        torch.tensor([2.0, -4.0], device="mps"),
    ]


def with_grads(grads: list[torch.Tensor]) -> list[torch.nn.Parameter]:
    params = [torch.nn.Parameter(torch.zeros_like(g.to_dense())) for g in grads]
    for p, g in zip(params, grads, strict=True):
        p.grad = g
    return params


def test_norms_of_what_our_kernels_do_not_take(one_process) -> None:
    from deepspeed.runtime.utils import get_flattened_grad_norm, get_global_norm_of_tensors

    for grads in (odd_grads(), odd_grads()[:1], odd_grads()[2:3]):
        expected = exact_norm([g.to_dense() for g in grads])
        assert within(torch.tensor(get_flattened_grad_norm(with_grads(grads))), expected)
        told = get_global_norm_of_tensors(grads)
        assert within(told, expected)
        assert told.device == grads[0].device
        for norm in both_norms():
            assert within(norm(zero_optimizer(0), grads, with_grads(grads)), expected)
        own = get_global_norm_of_tensors.__wrapped__
        assert within(own(grads), expected)
    bad = [torch.tensor([1.0, INF]).to_sparse(), torch.tensor([NAN], dtype=torch.float64)]
    for grad in bad:
        assert get_flattened_grad_norm(with_grads([grad])) == -1
        assert get_global_norm_of_tensors([grad]).item() == -1


def test_norms_of_single_gradients_that_our_kernels_do_not_take(enabled) -> None:
    from deepspeed.runtime.zero.stage3 import DeepSpeedZeroOptimizer_Stage3 as Zero3
    from deepspeed.runtime.zero.stage_1_and_2 import DeepSpeedZeroOptimizer as Zero

    grad = torch.tensor([3.0, 4.0, 9.0], dtype=torch.float64)
    assert Zero3._constant_buffered_norm2(None, grad[:2]).item() == 5
    stands_for = SimpleNamespace(
        get_param_id=lambda param: 7,
        get_param_gradient_attribute=lambda param: grad,
        grad_position={7: [0, 0, 0, 2]},
        norm_for_param_grads={},
    )
    Zero.set_norm_for_param_grad_in_gpu(stands_for, None)
    assert stands_for.norm_for_param_grads[7].item() == 5


@pytest.mark.parametrize("max_norm", [0.25, 1e9])
def test_clipping_of_what_our_kernels_do_not_take(one_process, max_norm) -> None:
    """DeepSpeed's own leaves sparse gradients unclipped, and refuses several devices."""
    from deepspeed.runtime.utils import clip_grad_norm_
    from deepspeed.utils import groups

    groups._get_data_parallel_group()  # of the one process
    params = with_grads(odd_grads())
    assert within(clip_grad_norm_(params, max_norm), 9.0)
    for p, g in zip(params, odd_grads(), strict=True):
        assert p.grad.layout == g.layout
        expected = g.to_dense().cpu().double() * min(1.0, max_norm / (9 + 1e-6))
        bound = expected.abs() * 8 * 2.0**-23  # as in test_clipping
        assert (p.grad.to_dense().cpu().double() - expected).abs().le(bound).all()
