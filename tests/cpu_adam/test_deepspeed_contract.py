"""The functions that DeepSpeed expects of its CPU Adam module."""

import inspect

import pytest
import torch
from adam_plain_reference import assert_bounded, plain_step
from adam_reference import Options

from mps_ds.ops import cpu_adam

ARGUMENTS = (0.01, 0.9, 0.999, 1e-8, 0.1)  # lr, beta1, beta2, eps, weight_decay


def make(seed: int = 0, dtype=torch.float32, size: int = 500) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    param, grad, mean = (torch.randn(size, generator=generator) for _ in range(3))
    square = 0.01 * torch.rand(size, generator=generator)
    return [param.to(dtype), grad.to(dtype), 0.1 * mean, square]


@pytest.fixture(params=[True, False], ids=["adamw", "adam"])
def adamw(request) -> bool:
    cpu_adam.create_adam(7, 1e-3, 0.9, 0.999, 1e-8, 0.0, request.param, True)
    yield request.param
    cpu_adam.destroy_adam(7)


def options(adamw: bool, bias_correction: bool = True) -> Options:
    lr, beta1, beta2, eps, weight_decay = ARGUMENTS
    return Options(lr, beta1, beta2, eps, weight_decay, adamw, bias_correction)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("bias_correction", [True, False])
def test_an_update_takes_its_numbers_from_its_arguments(adamw, bias_correction, dtype):
    tensors = make(dtype=dtype)
    before = [t.clone() for t in tensors]
    assert cpu_adam.adam_update(7, 3, *ARGUMENTS, bias_correction, *tensors) == 0
    want = plain_step(before, 3, options(adamw, bias_correction))
    for tensor, bounded in zip([tensors[0], *tensors[2:]], want, strict=True):
        assert_bounded(tensor, bounded, "result")


def test_each_param_has_the_step_count_that_it_is_given(adamw):
    # DeepSpeed#1643, #8471: one count for the whole module is wrong for the second param.
    rows = [make(seed) for seed in (0, 1)]
    for step in ((1, 1), (2, 7)):
        for row, count in zip(rows, step, strict=True):
            before = [t.clone() for t in row]
            cpu_adam.adam_update(7, count, *ARGUMENTS, True, *row)
            assert_bounded(row[0], plain_step(before, count, options(adamw))[0], "param")


def test_a_rollback_undoes_an_update_up_to_rounding(adamw):
    tensors = make()
    before = [t.clone() for t in tensors]
    cpu_adam.adam_update(7, 3, *ARGUMENTS, True, *tensors)
    moved = (tensors[0] - before[0]).abs()
    assert cpu_adam.adam_rollback(7, 3, *ARGUMENTS, True, *tensors) == 0
    ulp = 2.0**-24
    grad = before[1].abs() + 0.1 * before[0].abs()
    # A few roundings of the largest term each, over a factor of at least 0.9.
    assert ((tensors[0] - before[0]).abs() <= 16 * ulp * (before[0].abs() + moved)).all()
    assert ((tensors[2] - before[2]).abs() <= 8 * ulp * (before[2].abs() + grad)).all()
    assert ((tensors[3] - before[3]).abs() <= 8 * ulp * (before[3] + grad**2)).all()


def test_a_step_that_cannot_be_undone_is_refused(adamw):
    tensors = make()
    with pytest.raises(RuntimeError, match="betas are 0 and"):
        cpu_adam.adam_rollback(7, 1, 0.01, 0.0, 0.999, 1e-8, 0.1, True, *tensors)
    if adamw:
        with pytest.raises(RuntimeError, match="lr \\* weight_decay is 1"):
            cpu_adam.adam_rollback(7, 1, 1.0, 0.9, 0.999, 1e-8, 1.0, True, *tensors)


def test_an_unknown_number_is_named():
    with pytest.raises(RuntimeError, match="there is no CPU Adam 99"):
        cpu_adam.adam_update(99, 1, *ARGUMENTS, True, *make())
    assert cpu_adam.destroy_adam(99) == 0


def test_a_number_can_be_taken_again():
    cpu_adam.create_adam(8, adamw_mode=True)
    cpu_adam.create_adam(8, adamw_mode=False)
    tensors = make()
    before = [t.clone() for t in tensors]
    cpu_adam.adam_update(8, 1, *ARGUMENTS, True, *tensors)
    assert_bounded(tensors[0], plain_step(before, 1, options(False))[0], "param")
    cpu_adam.destroy_adam(8)
    with pytest.raises(RuntimeError, match="no CPU Adam 8"):
        cpu_adam.adam_update(8, 1, *ARGUMENTS, True, *tensors)


def test_the_arguments_are_deepspeeds():
    # In its order: it passes them by position.
    numbers = ["lr", "beta1", "beta2", "eps", "weight_decay"]
    tensors = ["params", "grads", "exp_avg", "exp_avg_sq"]
    update = ["optimizer_id", "step", *numbers, "bias_correction", *tensors]
    create = ["optimizer_id", *numbers, "adamw_mode", "should_log"]
    assert list(inspect.signature(cpu_adam.adam_update).parameters) == update
    assert list(inspect.signature(cpu_adam.adam_rollback).parameters) == update
    assert list(inspect.signature(cpu_adam.create_adam).parameters) == create
    assert list(inspect.signature(cpu_adam.destroy_adam).parameters) == ["optimizer_id"]
