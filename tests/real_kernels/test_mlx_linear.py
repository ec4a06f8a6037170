"""MLX's products of matrices and vectors.

A dot product of n terms, summed in float in any order, is exact within n roundings of the sum of
the magnitudes; the result is rounded once more to its type.
"""

import numpy as np
import pytest
import torch
from real_kernels import mlx
from real_kernels.accuracy import assert_summed, assert_within, ulp, unit
from real_kernels.kernels import FLOATS, dense, instances, unwritten

from mps_ds.softmetal import MetalError

TILE = 32  # rows and columns of a product that a threadgroup makes
FLAGS = {False: "false", True: "true"}
# Of kernels beside these in gemv.h: the software device tells what a kernel uses by names alone.
GEMV_CONSTANTS = {0: np.bool_(False), 1: np.bool_(False)}


def check_product(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor, what: str) -> None:
    exact, magnitudes = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    assert_summed(out, exact, magnitudes, a.shape[-1], torch.float32, what)


# ---- matrix times vector ----


@pytest.fixture(scope="module")
def vectors(compiled):
    table = [("gemv_divergent", "gemv<float, 1, 8, 1, 32, 4, 4, false, false>")]
    for t in FLOATS:
        table += [
            (f"gemv_{t}", f"gemv<{t}, 4, 1, 1, 32, 4, 4, false, false>"),
            (f"gemv_axpby_{t}", f"gemv<{t}, 4, 1, 1, 32, 4, 4, false, true>"),
            (f"gemv_t_{t}", f"gemv_t<{t}, 1, 2, 8, 4, 4, 4, false, false>"),
            (f"dot_{t}", f"dot_product<{t}, 32, 256, 8>"),
        ]
    return compiled("gemv", mlx.includes("gemv.h", "dot.h") + instances(table))


def gemv_arguments(matrix, vector, bias, out, alpha=1.0, beta=0.0):
    rows, columns = out.numel(), vector.numel()
    sizes = [mlx.int32(columns), mlx.int32(rows), mlx.int32(matrix.shape[1])]
    scales = [np.float32(alpha), np.float32(beta)]
    batch = [mlx.int32(1), mlx.ints(1), mlx.longs(0), mlx.longs(0), mlx.longs(0), mlx.int32(1)]
    return [matrix, vector, bias, out, *sizes, *scales, *batch]


@pytest.mark.parametrize("t", FLOATS)
def test_matrix_times_vector(vectors, t):
    matrix, vector = dense((50, 203), t), dense((203,), t)
    out = unwritten(50, matrix.dtype)
    arguments = gemv_arguments(matrix, vector, vector, out)
    vectors(
        f"gemv_{t}", arguments, (4, 1, 1), (32, 1, 4),
        groups=True, constants=GEMV_CONSTANTS,
    )  # fmt: skip
    check_product(out, matrix, vector, f"gemv of {t}")


@pytest.mark.parametrize("t", FLOATS)
def test_matrix_times_vector_plus_bias(vectors, t):
    """alpha A x + beta y: two products and a sum, each rounded to the type of the elements."""
    matrix, vector, bias = dense((50, 203), t), dense((203,), t), dense((50,), t)
    out = unwritten(50, matrix.dtype)
    arguments = gemv_arguments(matrix, vector, bias, out, 0.5, 2.0)
    vectors(
        f"gemv_axpby_{t}", arguments, (4, 1, 1), (32, 1, 4),
        groups=True, constants=GEMV_CONSTANTS,
    )  # fmt: skip
    product = matrix.double() @ vector.double()
    magnitudes = matrix.double().abs() @ vector.double().abs()
    exact = 0.5 * product + 2 * bias.double()
    u = unit(matrix.dtype)
    error = 203 * unit(torch.float32) * magnitudes + 1.01 * u * (product.abs() + exact.abs())
    assert_within(out, exact, error, f"gemv with bias of {t}")


@pytest.mark.parametrize("t", FLOATS)
def test_transposed_matrix_times_vector(vectors, t):
    matrix, vector = dense((203, 64), t), dense((203,), t)
    out = unwritten(64, matrix.dtype)
    arguments = gemv_arguments(matrix, vector, vector, out)
    vectors(
        f"gemv_t_{t}", arguments, (2, 1, 1), (32, 2, 1),
        groups=True, constants=GEMV_CONSTANTS,
    )  # fmt: skip
    check_product(out, matrix.t(), vector, f"gemv_t of {t}")


def test_a_barrier_that_one_lane_reaches_is_refused(vectors):
    """With more than one simdgroup in a row, MLX has a barrier that only its first lanes reach.

    The language leaves that undefined; GPUs let it pass. The software device names the line.
    """
    matrix, vector, out = dense((50, 203), "float"), dense((203,), "float"), torch.zeros(50)
    arguments = gemv_arguments(matrix, vector, vector, out)
    with pytest.raises(MetalError, match=r"threadgroup_barrier was not reached.*gemv\.h:\d+"):
        vectors(
            "gemv_divergent", arguments, (13, 1, 1), (32, 8, 1), groups=True,
            constants=GEMV_CONSTANTS,
        )  # fmt: skip


@pytest.mark.parametrize("t", FLOATS)
def test_dot_product(vectors, t):
    """One result for each of two threadgroups of 256 threads, 32 products a thread."""
    a, b, out = dense((9001,), t), dense((9001,), t), unwritten(2, torch.float32)
    vectors(f"dot_{t}", [a, b, out, mlx.int32(9001)], 2, 256, groups=True)
    for part, x, y in zip(out.split(1), a.split(8192), b.split(8192), strict=True):
        check_product(part, x[None], y, f"dot product of {t}")


# ---- matrix times matrix ----

GEMMS = [(t, a, b) for t in FLOATS for a in (False, True) for b in (False, True)]


def gemm_name(t: str, transpose_a: bool, transpose_b: bool) -> str:
    return f"gemm_{t}_{'t' if transpose_a else 'n'}{'t' if transpose_b else 'n'}"


@pytest.fixture(scope="module")
def matrices(compiled):
    table = [
        (gemm_name(t, a, b), f"gemm<{t}, 32, 32, 16, 2, 2, {FLAGS[a]}, {FLAGS[b]}>")
        for t, a, b in GEMMS
    ]
    headers = ("steel/gemm/gemm.h", "steel/gemm/kernels/steel_gemm_fused.h")
    return compiled("gemm", mlx.includes(*headers) + instances(table))


def gemm_params(m: int, n: int, k: int, lda: int, ldb: int) -> bytes:
    """MLX's GEMMParams."""
    fields = [("int", "<i4", 8), ("batch", "<i8", 3), ("last", "<i4", 3), ("padding", "<i4", 1)]
    params = np.zeros(1, [(name, kind, (count,)) for name, kind, count in fields])
    tiles = -(-n // TILE), -(-m // TILE)
    params["int"] = [m, n, k, lda, ldb, n, *tiles]
    params["last"] = [0, k // 16, 1]
    return params.tobytes()


def gemm(kernels, name, a, b, transposed, c=None, alpha=1.0, beta=0.0):
    m, n = (
        (a.shape[1] if transposed[0] else a.shape[0]),
        (b.shape[0] if transposed[1] else b.shape[1]),
    )
    k = a.shape[0] if transposed[0] else a.shape[1]
    out = unwritten((m, n), a.dtype)
    addmm = np.zeros(1, [("c", "<i4", 2), ("batch", "<i8"), ("scale", "<f4", 2)])
    addmm["c"], addmm["scale"] = [n, 1], [alpha, beta]
    constants = {10: False, 100: c is not None, 110: c is not None}
    constants |= {200: m % TILE == 0, 201: n % TILE == 0, 202: k % 16 == 0}
    params = gemm_params(m, n, k, a.shape[1], b.shape[1])
    # The kernel reads addmm_params also where it has no use for them.
    arguments = [a, b, c, out, params, addmm.tobytes(), None, None]
    grid = (-(-n // TILE), -(-m // TILE), 1)
    kernels(
        name, arguments, grid, (32, 2, 2), groups=True,
        constants={index: np.bool_(value) for index, value in constants.items()},
    )  # fmt: skip
    return out


@pytest.mark.parametrize("shape", [(64, 32, 48), (70, 45, 37)], ids=["whole tiles", "any size"])
@pytest.mark.parametrize(("t", "transpose_a", "transpose_b"), GEMMS)
def test_matrix_product(matrices, t, transpose_a, transpose_b, shape):
    m, n, k = shape
    a, b = dense((k, m) if transpose_a else (m, k), t), dense((n, k) if transpose_b else (k, n), t)
    name = gemm_name(t, transpose_a, transpose_b)
    out = gemm(matrices, name, a, b, (transpose_a, transpose_b))
    left, right = a.t() if transpose_a else a, b.t() if transpose_b else b
    check_product(out, left, right, name)


@pytest.mark.parametrize("t", FLOATS)
def test_matrix_product_plus_matrix(matrices, t):
    """alpha A B + beta C; the scaled C is rounded to its type before it is added."""
    a, b, c = dense((64, 50), t), dense((50, 36), t), dense((64, 36), t)
    out = gemm(matrices, gemm_name(t, False, False), a, b, (False, False), c, 0.5, 3.0)
    exact = 0.5 * (a.double() @ b.double()) + 3 * c.double()
    magnitudes = 0.5 * (a.double().abs() @ b.double().abs())
    error = 52 * unit(torch.float32) * magnitudes + 1.01 * unit(c.dtype) * 3 * c.double().abs()
    assert_within(out, exact, error + 0.51 * ulp(exact, out.dtype), f"addmm of {t}")


def test_a_read_behind_the_last_row_is_caught(matrices):
    """Where the last tile has fewer rows, MLX reads C behind its end, and drops what it read."""
    a, b, c = (torch.ones(shape) for shape in ((40, 50), (50, 36), (40, 36)))
    with pytest.raises(MetalError, match=r"out-of-bounds read.*argument 'C'.*mma\.h:\d+"):
        gemm(matrices, "gemm_float_nn", a, b, (False, False), c, 0.5, 3.0)
