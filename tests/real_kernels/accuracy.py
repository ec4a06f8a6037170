"""How far a result may be from the exact one, in terms of its own type.

`unit(dtype)` is the rounding unit u: one operation is exact within a factor of 1 +- u. `ulp(x)` is
the distance of two neighbours at x.
"""

import torch

_BITS = {torch.float32: (24, -126), torch.float16: (11, -14), torch.bfloat16: (8, -126)}


def unit(dtype: torch.dtype) -> float:
    """Largest relative error of rounding to this type."""
    return 2.0 ** -_BITS[dtype][0]


def ulp(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Distance of neighbours of `dtype` at each value of a float64 tensor."""
    bits, smallest = _BITS[dtype]
    _, exponent = torch.frexp(exact)  # exact = f * 2**exponent, 0.5 <= f < 1
    exponent = torch.where(exact == 0, smallest, exponent - 1).clamp(min=smallest)
    return torch.ldexp(torch.ones_like(exact), exponent - (bits - 1))


def assert_within(
    result: torch.Tensor, exact: torch.Tensor, error: torch.Tensor | float, what: str
) -> None:
    """|result - exact| <= error, everywhere; what is not finite has to be the same."""
    assert result.shape == exact.shape, f"{what}: shape {result.shape}, expected {exact.shape}"
    got, exact = result.double(), exact.double()
    error = torch.as_tensor(error, dtype=torch.float64).expand_as(exact)
    finite = exact.isfinite()
    same = torch.where(exact.isnan(), got.isnan(), got == exact)
    ok = torch.where(finite, (got - exact).abs() <= error, same)
    if not bool(ok.all()):
        excess = torch.where(ok, 0.0, (got - exact).abs() / error.clamp(min=1e-300)).nan_to_num()
        at = int(torch.where(ok, -1.0, excess).argmax())
        raise AssertionError(
            f"{what}: {int((~ok).sum())} of {ok.numel()} wrong; the worst, number {at}, is "
            f"{got.flatten()[at].item()!r}, exact is {exact.flatten()[at].item()!r}, allowed are "
            f"+-{error.flatten()[at].item():.3g}"
        )


def assert_rounded(
    result: torch.Tensor, exact: torch.Tensor, what: str, ulps: float = 0.51
) -> None:
    """Within so many ulp of the result's type: 0.51 is one rounding of a nearly exact value."""
    error = ulps * ulp(exact.double(), result.dtype)
    assert_within(result, exact, error, what)


def assert_summed(
    result: torch.Tensor,
    exact: torch.Tensor,
    magnitudes: torch.Tensor,
    roundings: int,
    accumulated_in: torch.dtype,
    what: str,
) -> None:
    """A sum, in any order: each of `roundings` adds u of what the magnitudes sum to.

    `magnitudes` is the sum of the absolute values of the terms; the result is rounded once more to
    its own type.
    """
    error = roundings * unit(accumulated_in) * magnitudes.double()
    error = error + 0.5 * ulp(exact.double(), result.dtype)
    assert_within(result, exact, error, what)
