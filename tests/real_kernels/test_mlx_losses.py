"""MLX's softmax, logsumexp and cross entropy: a sum of exponentials of each row."""

import pytest
import torch
from real_kernels import mlx
from real_kernels.accuracy import assert_within, ulp, unit
from real_kernels.kernels import DTYPES, FLOATS, instances, unwritten


@pytest.fixture(scope="module")
def losses(compiled):
    table = []
    for t in FLOATS:
        table += [
            (f"softmax_{t}", f"softmax_single_row<{t}, float>"),
            (f"softmax_looped_{t}", f"softmax_looped<{t}, float>"),
            (f"logsumexp_{t}", f"logsumexp<{t}>"),
            (f"logsumexp_looped_{t}", f"logsumexp_looped<{t}>"),
            (f"cross_entropy_{t}", f"cross_entropy<{t}>"),
            (f"cross_entropy_vjp_{t}", f"cross_entropy_vjp<{t}>"),
        ]
    headers = mlx.includes("softmax.h", "logsumexp.h", "cross_entropy.h")
    return compiled("losses", headers + instances(table))


ROWS = {"": (1000, 256), "_looped": (5000, 1024)}  # elements of a row, threads for it


def exp_error(x: torch.Tensor) -> float:
    """Relative error of exp(x - max): its own rounding, and that of the difference."""
    u = unit(torch.float32)
    spread = float(x.double().max() - x.double().min())
    return 1.1 * u + 2 * u * spread  # in a loop, the maximum changes: a second difference


@pytest.mark.parametrize("t", FLOATS)
@pytest.mark.parametrize("how", ROWS)
def test_softmax(losses, how, t):
    """exp, a sum of n of them, the reciprocal and a product: each is relative."""
    n, threads = ROWS[how]
    x = (torch.randn(5, n) * 3).to(DTYPES[t])
    out = unwritten((5, n), x.dtype)
    losses(f"softmax{how}_{t}", [x, out, mlx.int32(n)], 5, threads, groups=True)
    exact = x.double().softmax(1)
    relative = 2 * exp_error(x) + (n + 3) * unit(torch.float32)
    assert_within(out, exact, relative * exact + 0.5 * ulp(exact, x.dtype), f"softmax of {t}")


@pytest.mark.parametrize("t", FLOATS)
@pytest.mark.parametrize("how", ROWS)
def test_logsumexp(losses, how, t):
    """A relative error of the sum is an absolute one of its logarithm."""
    n, threads = ROWS[how]
    x = (torch.randn(5, n) * 3).to(DTYPES[t])
    out = unwritten(5, x.dtype)
    losses(f"logsumexp{how}_{t}", [x, out, mlx.int32(n)], 5, threads, groups=True)
    exact = x.double().logsumexp(1)
    error = exp_error(x) + n * unit(torch.float32) + 1.1 * ulp(exact, torch.float32)
    assert_within(out, exact, error + 0.5 * ulp(exact, x.dtype), f"logsumexp of {t}")


@pytest.mark.parametrize("t", FLOATS)
def test_cross_entropy(losses, t):
    """The loss, and its derivative, which aliases nothing here."""
    n = 900
    x = (torch.randn(6, n) * 3).to(DTYPES[t])
    targets = torch.randint(-n, n, (6,)).int()  # negative ones count from the end
    loss = unwritten(6, torch.float32)
    losses(f"cross_entropy_{t}", [x, targets, loss, mlx.int32(n)], 6, 128, groups=True)
    wanted = torch.where(targets < 0, targets + n, targets).long()
    exact = torch.nn.functional.cross_entropy(x.double(), wanted, reduction="none")
    error = exp_error(x) + n * unit(torch.float32) + 2.2 * ulp(exact + 10, torch.float32)
    assert_within(loss, exact, error, f"cross entropy of {t}")

    cotangent = torch.rand(6) + 0.5
    grad = unwritten((6, n), x.dtype)
    arguments = [x, targets, loss, cotangent, grad, mlx.int32(n)]
    losses(f"cross_entropy_vjp_{t}", arguments, 6, 128, groups=True)
    one_hot = torch.nn.functional.one_hot(wanted, n)
    p = x.double().softmax(1)
    exact = cotangent.double()[:, None] * (p - one_hot)
    # exp((x - x_t) - loss): the loss's error, and roundings of two differences of at most 30.
    relative = error[:, None] + 3 * 30 * unit(torch.float32)
    bound = cotangent[:, None] * (relative * p + unit(torch.float32)) + 0.51 * ulp(exact, x.dtype)
    assert_within(grad, exact, bound, f"derivative of the cross entropy of {t}")
