"""The float64 reference that the self test measures against is itself right."""

import numpy as np
import pytest
import torch

from mps_ds.selftest.reference import Array, Error, Options, Values, adam, compare

OPTIMIZERS = {
    "AdamW": (torch.optim.AdamW, Options(weight_decay=0.1)),
    "Adam with L2": (torch.optim.Adam, Options(weight_decay=0.1, adam_w_mode=False)),
    "maximize": (torch.optim.AdamW, Options(lr=0.1, beta1=0.5, maximize=True)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_equals_torch_in_float64(name: str) -> None:
    make, options = OPTIMIZERS[name]
    generator = torch.Generator().manual_seed(0)
    param = torch.randn(50, dtype=torch.float64, generator=generator).requires_grad_()
    optimizer = make(
        [param],
        lr=options.lr,
        betas=(options.beta1, options.beta2),
        eps=options.eps,
        weight_decay=options.weight_decay,
        maximize=options.maximize,
    )
    values = Values(param.detach().numpy().copy(), np.zeros(50), np.zeros(50))
    for step in range(1, 6):
        param.grad = torch.randn(50, dtype=torch.float64, generator=generator)
        values = adam(values, param.grad.numpy(), step, options).values
        optimizer.step()
    state = optimizer.state[param]
    for got, wanted in zip(
        values, (param.detach(), state["exp_avg"], state["exp_avg_sq"]), strict=True
    ):
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-13, atol=1e-16)


def test_one_ulp_is_one() -> None:
    value = np.array([1.0, 1024.0, -3.0])
    up = np.nextafter(value.astype(np.float32), np.float32(np.inf))
    allowed = np.array([2.0**-22, 2.0**-10, 2.0**-21])
    assert compare(up, value, np.abs(value), allowed) == Error(1.0, 0.5)


def test_cancelled_terms_count_in_their_own_ulp() -> None:
    """What is left of 1 - 0.99999994 is no error of the size of what is left."""
    left = np.array([2.0**-24], dtype=np.float32)
    assert compare(left, np.zeros(1), np.ones(1), np.ones(1)).ulp == 0.5


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_infinitely_wrong(wrong: float) -> None:
    got = np.array([1.0, wrong], dtype=np.float32)
    assert compare(got, np.ones(2), np.ones(2), np.ones(2)) == Error(np.inf, np.inf)


def test_without_elements_there_is_no_error() -> None:
    assert compare(np.zeros(0, np.float32), *[np.zeros(0)] * 3) == Error(0.0, 0.0)


def fresh(size: int) -> tuple[Values, Array]:
    random = np.random.default_rng(0)
    return Values(random.normal(size=size), np.zeros(size), np.zeros(size)), random.normal(
        size=size
    )


def test_the_result_rounded_once_is_within_the_bound() -> None:
    before, grad = fresh(1000)
    step = adam(before, grad, 1, Options())
    for wanted, largest, allowed in zip(*step, strict=True):
        assert compare(wanted.astype(np.float32), wanted, largest, allowed).share < 1


def test_the_known_error_of_other_kernels_is_outside_the_bound() -> None:
    """1 - 0.999f in float32 is 1.3e-5 off; kernels that compute it on the device carry that."""
    before, grad = fresh(1000)
    wrong = Options(beta2=float(np.float32(0.999)))
    got = adam(before, grad, 1, wrong).values.exp_avg_sq.astype(np.float32)
    step = adam(before, grad, 1, Options())
    error = compare(got, step.values.exp_avg_sq, step.largest.exp_avg_sq, step.allowed.exp_avg_sq)
    assert error.share > 10
