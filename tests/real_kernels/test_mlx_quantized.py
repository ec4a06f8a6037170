"""MLX's quantized kernels: weights of 2, 4 and 8 bits with a scale and a bias for every 64.

A product is a dot product of n terms, summed in float in any order, as in test_mlx_linear.py.
"""

import itertools

import pytest
import torch
from real_kernels import mlx
from real_kernels.accuracy import assert_within, ulp, unit
from real_kernels.kernels import DTYPES, FLOATS, dense, instances, unwritten

TILE = 32  # rows and columns of a product that a threadgroup makes
BITS = (2, 4, 8)
GROUP = 64
QUANTIZED = list(itertools.product(FLOATS, BITS))


@pytest.fixture(scope="module")
def quantized(compiled):
    table = []
    for t, bits in QUANTIZED:
        which = f"{t}, {GROUP}, {bits}"
        table += [
            (f"quantize_{t}_{bits}", f"affine_quantize<{which}>"),
            (f"dequantize_{t}_{bits}", f"affine_dequantize<{which}>"),
            (f"qmv_{t}_{bits}", f"affine_qmv<{which}, false>"),
            (f"qmv_fast_{t}_{bits}", f"affine_qmv_fast<{which}, false>"),
            (f"qvm_{t}_{bits}", f"affine_qvm<{which}, false>"),
            (f"qmm_{t}_{bits}", f"affine_qmm_t<{which}, false, false>"),
        ]
    headers = ("steel/gemm/gemm.h", "quantized_utils.h", "quantized.h")
    return compiled("quantized", mlx.includes(*headers) + instances(table))


def packed(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Rows of small integers, the first in the lowest bits of each byte."""
    per_byte = 8 // bits
    parts = values.reshape(*values.shape[:-1], -1, per_byte).int()
    shifts = torch.arange(per_byte, dtype=torch.int32) * bits
    return (parts << shifts).sum(-1).to(torch.uint8)


class Weights:
    """rows x columns of `bits` each, with a scale and a bias for every 64 of a row."""

    def __init__(self, rows: int, columns: int, t: str, bits: int) -> None:
        self.q = torch.randint(0, 2**bits, (rows, columns))
        self.scales = (torch.rand(rows, columns // GROUP) + 0.5).to(DTYPES[t])
        self.biases = torch.randn(rows, columns // GROUP).to(DTYPES[t])
        self.packed = packed(self.q, bits)
        scales, biases = (
            x.double().repeat_interleave(GROUP, 1) for x in (self.scales, self.biases)
        )
        self.exact = self.q * scales + biases
        self.magnitudes = self.q * scales + biases.abs()

    def arguments(self):
        return [self.packed, self.scales, self.biases]


@pytest.mark.parametrize(("t", "bits"), QUANTIZED)
def test_dequantize(quantized, t, bits):
    """scale q + bias, rounded after each of the two operations."""
    w = Weights(6, 256, t, bits)
    out = unwritten((6, 256), DTYPES[t])
    per_thread = 8 // bits
    grid = (6 * 256 // per_thread, 1)
    quantized(f"dequantize_{t}_{bits}", [*w.arguments(), out], grid, (32, 1))
    error = 1.01 * unit(out.dtype) * (w.magnitudes + w.exact.abs())
    assert_within(out, w.exact, error, f"dequantize {bits} bits to {t}")


@pytest.mark.parametrize(("t", "bits"), QUANTIZED)
def test_quantize(quantized, t, bits):
    """Each value comes back within half a step of its scale, and a rounding of scale and bias."""
    x = dense((6, 256), t)
    out = unwritten(6 * 256 * bits // 8, torch.uint8)
    scales, biases = (unwritten((6, 256 // GROUP), x.dtype) for _ in range(2))
    quantized(f"quantize_{t}_{bits}", [x, out, scales, biases], (6 * 256 // 2, 1), (32, 1))
    shifts = torch.arange(8 // bits) * bits
    q = ((out[:, None].int() >> shifts) & (2**bits - 1)).reshape(6, 256)
    scale, bias = (v.double().repeat_interleave(GROUP, 1) for v in (scales, biases))
    # The bias is an end of the range, exactly. The scale is adjusted so that 0 is a multiple of it,
    # by at most half a step of q0 >= n / 2 steps: the other end may be missed by one step.
    error = scale.abs() * (1 + 2**bits * 2 * unit(x.dtype))
    assert_within(q * scale + bias, x.double(), error, f"quantize {t} to {bits} bits")
    assert bool((q.reshape(6, -1, GROUP).amin(2) == 0).all())


def no_batch():
    """Arguments of kernels that take a batch and are told that there is none."""
    one = [mlx.int32(1), mlx.ints(1), mlx.longs(0)]
    return [*one, *one, mlx.longs(0), mlx.longs(0)]


def check_quantized(out, x, w, exact, magnitudes, what) -> None:
    """As a dot product; what multiplies the bias may be summed in the type of x, four at a time."""
    n = x.shape[-1]
    roundings = n * unit(torch.float32) + 4 * unit(x.dtype)
    error = roundings * magnitudes + 0.5 * ulp(exact, out.dtype)
    assert_within(out, exact, error, what)


@pytest.mark.parametrize("how", ["qmv", "qmv_fast"])
@pytest.mark.parametrize(("t", "bits"), QUANTIZED)
def test_quantized_matrix_times_vector(quantized, t, bits, how):
    rows, columns = (24, 1024) if how == "qmv_fast" else (21, 448)
    w, x = Weights(rows, columns, t, bits), dense((2, columns), t)
    out = unwritten((2, rows), x.dtype)
    arguments = [*w.arguments(), x, out, mlx.int32(columns), mlx.int32(rows), *no_batch()]
    grid = (2, -(-rows // 8), 1)
    quantized(f"{how}_{t}_{bits}", arguments, grid, (32, 2, 1), groups=True)
    exact = x.double() @ w.exact.t()
    magnitudes = x.double().abs() @ w.magnitudes.t()
    check_quantized(out, x, w, exact, magnitudes, f"{how} of {bits} bits and {t}")


@pytest.mark.parametrize(("t", "bits"), QUANTIZED)
def test_vector_times_quantized_matrix(quantized, t, bits):
    rows, columns = 96, 256
    w, x = Weights(rows, columns, t, bits), dense((2, rows), t)
    out = unwritten((2, columns), x.dtype)
    arguments = [*w.arguments(), x, out, mlx.int32(rows), mlx.int32(columns), *no_batch()]
    quantized(f"qvm_{t}_{bits}", arguments, (2, columns // 64, 1), (32, 2, 1), groups=True)
    exact = x.double() @ w.exact
    magnitudes = x.double().abs() @ w.magnitudes
    check_quantized(out, x, w, exact, magnitudes, f"qvm of {bits} bits and {t}")


@pytest.mark.parametrize(("t", "bits"), QUANTIZED)
def test_matrix_times_quantized_matrix(quantized, t, bits):
    """The weights are rounded to the type of x before they are multiplied."""
    rows, columns, m = 45, 192, 37
    w, x = Weights(rows, columns, t, bits), dense((m, columns), t)
    out = unwritten((m, rows), x.dtype)
    sizes = [mlx.int32(columns), mlx.int32(rows), mlx.int32(m)]
    arguments = [*w.arguments(), x, out, *sizes, *no_batch()]
    grid = (-(-rows // TILE), -(-m // TILE), 1)
    quantized(f"qmm_{t}_{bits}", arguments, grid, (32, 2, 2), groups=True)
    exact = x.double() @ w.exact.t()
    magnitudes = x.double().abs() @ w.magnitudes.t()
    check_quantized(out, x, w, exact, magnitudes, f"qmm of {bits} bits and {t}")
