"""The float64 reference that the self test measures against is itself right."""

import numpy as np
import pytest
import torch

from mps_ds.selftest.reference import Options, Values, adam, error_in_ulp

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
        values, _ = adam(values, param.grad.numpy(), step, options)
        optimizer.step()
    state = optimizer.state[param]
    for got, wanted in zip(
        values, (param.detach(), state["exp_avg"], state["exp_avg_sq"]), strict=True
    ):
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-13, atol=1e-16)


def test_one_ulp_is_one() -> None:
    value = np.array([1.0, 1024.0, -3.0])
    up = np.nextafter(value.astype(np.float32), np.float32(np.inf))
    assert error_in_ulp(up, value, np.abs(value)) == 1.0


def test_cancelled_terms_count_in_their_own_ulp() -> None:
    """1 - 0.99999994 is one ulp of the second, and so no error of the first's size."""
    assert error_in_ulp(np.float32([2**-24]), np.zeros(1), np.ones(1)) == 0.5


def test_flushed_subnormals_are_no_error() -> None:
    assert error_in_ulp(np.float32([0.0]), np.array([2.0**-127]), np.array([2.0**-127])) == 0.0


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_infinitely_wrong(wrong: float) -> None:
    assert error_in_ulp(np.float32([1.0, wrong]), np.ones(2), np.ones(2)) == np.inf


def test_without_elements_there_is_no_error() -> None:
    assert error_in_ulp(np.zeros(0, np.float32), np.zeros(0), np.zeros(0)) == 0.0
