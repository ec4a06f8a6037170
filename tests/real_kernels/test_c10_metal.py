"""Kernels made with PyTorch's own headers for Metal (c10/metal), against PyTorch on the CPU."""

import math

import numpy as np
import pytest
import torch
from real_kernels import mlx
from real_kernels.accuracy import assert_summed, assert_within, ulp, unit
from real_kernels.kernels import DTYPES, FLOATS, instances, unwritten

U = unit(torch.float32)

# ---- functions of one argument ----

# C++ expression of x; PyTorch's function; range; roundings: how many operations of c10's formula
# can each be off by one rounding of the largest number that occurs in it; that number, at least
# the result's magnitude.
SPECIAL = {
    "erf": ("erf(x)", torch.erf, (-3, 3), 16, 1),
    "erfc": ("erfc(x)", torch.erfc, (-3, 3), 16, 1),
    "erfinv": ("erfinv(x)", torch.erfinv, (-0.95, 0.95), 30, 1),
    "i0": ("i0(x)", torch.special.i0, (-9, 9), 100, 0),
    "i0e": ("i0e(x)", torch.special.i0e, (-9, 9), 100, 0),
    "i1": ("i1(x)", torch.special.i1, (-9, 9), 100, 0),
    "i1e": ("i1e(x)", torch.special.i1e, (-9, 9), 100, 0),
    "log_gamma": ("log_gamma(x)", torch.lgamma, (0.1, 9), 40, 14),
    "gamma": ("gamma(x)", lambda x: torch.lgamma(x).exp(), (1, 9), 40, 0),
    "digamma": ("digamma(x)", torch.digamma, (0.2, 9), 40, 6),
    "trigamma": ("trigamma(x)", lambda x: torch.polygamma(1, x), (0.2, 9), 40, 0),
    "zeta": ("zeta(2.5f, x)", lambda x: torch.special.zeta(torch.tensor(2.5), x), (0.5, 9), 80, 0),
    "sinc": ("sinc(x)", torch.sinc, (-5, 5), 30, 1),
    "bessel_j0_sph": ("spherical_bessel_j0(x)", torch.special.spherical_bessel_j0, (-9, 9), 20, 1),
    "entr": ("entr(x)", torch.special.entr, (0.01, 9), 3, 0),
    "bessel_j0": ("bessel_j0_forward(x)", torch.special.bessel_j0, (-4.9, 4.9), 40, 3),
    "bessel_j1": ("bessel_j1_forward(x)", torch.special.bessel_j1, (-4.9, 4.9), 40, 3),
    "bessel_y0": ("bessel_y0_forward(x)", torch.special.bessel_y0, (0.3, 4.9), 60, 4),
    "bessel_y1": ("bessel_y1_forward(x)", torch.special.bessel_y1, (0.3, 4.9), 60, 4),
    "mod_i0": ("modified_bessel_i0_forward(x)", torch.special.modified_bessel_i0, (-9, 9), 100, 0),
    "mod_i1": ("modified_bessel_i1_forward(x)", torch.special.modified_bessel_i1, (-9, 9), 100, 0),
    "mod_k0": ("modified_bessel_k0_forward(x)", torch.special.modified_bessel_k0, (0.2, 9), 90, 3),
    "mod_k1": ("modified_bessel_k1_forward(x)", torch.special.modified_bessel_k1, (0.2, 9), 90, 3),
    "scaled_k0": (
        "scaled_modified_bessel_k0_forward(x)",
        torch.special.scaled_modified_bessel_k0, (2.1, 9), 90, 0,
    ),
    "erfcx": ("erfcx(x)", torch.special.erfcx, (-2, 9), 60, 0),
    "chebyshev_t": (
        "chebyshev_polynomial_t_forward(x, 5)",
        lambda x: torch.special.chebyshev_polynomial_t(x, 5), (-1, 1), 30, 3,
    ),
    "chebyshev_u": (
        "chebyshev_polynomial_u_forward(x, 5)",
        lambda x: torch.special.chebyshev_polynomial_u(x, 5), (-1, 1), 30, 6,
    ),
    "hermite_h": (
        "hermite_polynomial_h_forward(x, 4)",
        lambda x: torch.special.hermite_polynomial_h(x, 4), (-2, 2), 20, 200,
    ),
    "hermite_he": (
        "hermite_polynomial_he_forward(x, 4)",
        lambda x: torch.special.hermite_polynomial_he(x, 4), (-2, 2), 20, 60,
    ),
}  # fmt: skip


# These compute in the type of their argument, so they get a float: a bound on arithmetic in half or
# bfloat would say little.
_IN_FLOAT = """
erfinv i0 i0e i1 i1e bessel_j0_sph entr bessel_j0 bessel_j1 bessel_y0 bessel_y1 mod_i0 mod_i1 mod_k0
mod_k1 scaled_k0 erfcx trigamma
"""
IN_FLOAT = frozenset(_IN_FLOAT.split())


def functor(name: str, expression: str) -> str:
    """As PyTorch's own operations are written."""
    x = "float" if name in IN_FLOAT else "T"
    return (
        f"struct {name}_functor {{ template <typename T> T operator()(const T argument) {{ "
        f"{x} x = argument; return static_cast<T>(c10::metal::{expression}); }} }};\n"
    )


HEADER = """
#include <c10/metal/indexing.h>
#include <c10/metal/special_math.h>
using namespace metal;
using namespace c10::metal;
"""


@pytest.fixture(scope="module")
def functions(compiled_c10):
    source = HEADER + "".join(functor(name, entry[0]) for name, entry in SPECIAL.items())
    table = [
        (f"{name}_{t}", f"c10::metal::unary_dense<{t}, {name}_functor>")
        for name in SPECIAL
        for t in FLOATS
    ]
    table.append(("entr_strided", "c10::metal::unary_strided<float, entr_functor>"))
    return compiled_c10("c10 functions", source + instances(table))


def apply(kernels, kernel: str, x: torch.Tensor) -> torch.Tensor:
    out = unwritten(len(x), x.dtype)
    kernels(kernel, [out, x, mlx.uint(len(x))], math.ceil(len(x) / 4), 64)
    return out


@pytest.mark.parametrize("t", FLOATS)
@pytest.mark.parametrize("name", SPECIAL)
def test_special_function(functions, name, t):
    """Within the roundings of its formula, which is in float, and one to its type."""
    _, function, (lowest, highest), roundings, scale = SPECIAL[name]
    x = torch.empty(1003).uniform_(lowest, highest).to(DTYPES[t])
    exact = function(x.double())
    error = roundings * U * (exact.abs() + scale) + 0.51 * ulp(exact, x.dtype)
    assert_within(apply(functions, f"{name}_{t}", x), exact, error, f"{name} of {t}")


def test_strided_function(functions):
    """A transposed input, a dense output: sizes and strides count from the innermost dimension."""
    x = torch.rand(6, 7) * 4
    out = unwritten((7, 6), torch.float32)
    sizes, strides = mlx.longs(6, 7), (mlx.longs(4 * 7, 4), mlx.longs(4, 4 * 6))
    functions(
        "entr_strided",
        [out, x, sizes, strides[0], strides[1], mlx.uint(2)], (6, 7), (6, 1),
    )  # fmt: skip
    expected = apply(functions, "entr_float", x.flatten()).reshape(6, 7).t()
    assert torch.equal(out, expected)


# ---- reductions ----

REDUCTIONS = """
#include <c10/metal/atomic.h>
#include <c10/metal/reduction_utils.h>
#include <c10/metal/random.h>
using namespace metal;
template <typename T> kernel void group_sum(device float* out, device const T* in,
    uint t [[thread_position_in_threadgroup]], uint n [[threads_per_threadgroup]]) {
  threadgroup c10::metal::opmath_t<T> shared[32];
  auto r = c10::metal::threadgroup_sum(shared, c10::metal::opmath_t<T>(in[t]), t, n);
  if (t == 0) out[0] = r;
}
template <typename T> kernel void group_prod(device float* out, device const T* in,
    uint t [[thread_position_in_threadgroup]], uint n [[threads_per_threadgroup]]) {
  threadgroup c10::metal::opmath_t<T> shared[32];
  auto r = c10::metal::threadgroup_prod(shared, c10::metal::opmath_t<T>(in[t]), t, n);
  if (t == 0) out[0] = r;
}
template <typename T> kernel void group_max(device T* out, device const T* in,
    uint t [[thread_position_in_threadgroup]], uint n [[threads_per_threadgroup]]) {
  threadgroup T shared[32];
  T r = c10::metal::threadgroup_max(shared, in[t], t, n);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  T s = c10::metal::threadgroup_min(shared, in[t], t, n);
  if (t == 0) { out[0] = r; out[1] = s; }
}
template <typename T> kernel void group_argmax(device long* out, device const T* in,
    uint t [[thread_position_in_threadgroup]], uint n [[threads_per_threadgroup]]) {
  threadgroup T shared[32];
  threadgroup long places[32];
  long r = c10::metal::threadgroup_argmax(shared, places, in[t], long(t), t, n);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  long s = c10::metal::threadgroup_argmin(shared, places, in[t], long(t), t, n);
  if (t == 0) { out[0] = r; out[1] = s; }
}
kernel void lanes_long(device long* out, device const long* in,
                       uint t [[thread_index_in_simdgroup]]) {
  long sum = c10::metal::simd_sum(in[t]), product = c10::metal::simd_prod(in[t]);
  long most = c10::metal::simd_max(in[t]), least = c10::metal::simd_min(in[t]);
  if (t == 0) { out[0] = sum; out[1] = product; out[2] = most; out[3] = least; }
}
template <typename T> kernel void add_atomically(
    device typename c10::metal::AtomicType<T>::type* out, uint i [[thread_position_in_grid]]) {
  c10::metal::AtomicType<T>::atomic_add(out, i % 7, T(1));
}
kernel void normal(device float* out, constant long& seed, uint i [[thread_position_in_grid]]) {
  out[i] = c10::metal::randn(seed, i);
}
kernel void uniform_(device float* out, constant long& seed, uint i [[thread_position_in_grid]]) {
  out[i] = c10::metal::rand(seed, i);
}
kernel void whole(device long* out, constant long& seed, uint i [[thread_position_in_grid]]) {
  out[i] = c10::metal::randint64(seed, i, -3, 9);
}
"""


@pytest.fixture(scope="module")
def reductions(compiled_c10):
    table = [(f"{op}_{t}", f"{op}<{t}>") for op in ("group_sum", "group_prod") for t in FLOATS]
    table += [
        (f"{op}_{t}", f"{op}<{t}>")
        for op in ("group_max", "group_argmax")
        for t in ("float", "half", "int")
    ]
    table += [(f"add_atomically_{t}", f"add_atomically<{t}>") for t in (*FLOATS, "int", "char")]
    return compiled_c10("c10 reductions", REDUCTIONS + instances(table))


@pytest.mark.parametrize("t", FLOATS)
@pytest.mark.parametrize("threads", [32, 500])
def test_sum_and_product_of_a_threadgroup(reductions, t, threads):
    x = torch.randn(threads).to(DTYPES[t])
    out = unwritten(1, torch.float32)
    reductions(f"group_sum_{t}", [out, x], threads, threads)
    exact = x.double().sum()[None]
    assert_summed(out, exact, x.double().abs().sum()[None], threads, torch.float32, f"sum of {t}")
    x = (torch.rand(threads) * 0.1 + 0.95).to(DTYPES[t])
    reductions(f"group_prod_{t}", [out, x], threads, threads)
    exact = x.double().prod()[None]
    assert_within(out, exact, threads * U * exact, f"product of {t}")


@pytest.mark.parametrize("t", ["float", "half", "int"])
def test_extremes_of_a_threadgroup(reductions, t):
    x = torch.randperm(500).to(DTYPES[t]) - 250
    out = unwritten(2, x.dtype)
    reductions(f"group_max_{t}", [out, x], 500, 500)
    assert out.tolist() == [249, -250]
    places = unwritten(2, torch.int64)
    reductions(f"group_argmax_{t}", [places, x], 500, 500)
    assert places.tolist() == [int(x.argmax()), int(x.argmin())]


def test_operations_of_a_simdgroup_on_long(reductions):
    x = torch.randint(-(2**60), 2**60, (32,)) | 1
    out = unwritten(4, torch.int64)
    reductions("lanes_long", [out, x], 32, 32)
    assert out.tolist() == [int(x.sum()), int(x.prod()), int(x.max()), int(x.min())]


@pytest.mark.parametrize("t", [*FLOATS, "int", "char"])
def test_atomic_add(reductions, t):
    out = torch.zeros(8, dtype=DTYPES[t])
    reductions(f"add_atomically_{t}", [out], 700, 64)
    assert out.tolist() == [100] * 7 + [0]


def test_random_numbers(reductions):
    """The mean of n numbers of deviation s misses theirs by 5 s / sqrt(n) once in 1.7 million."""
    n = 100_000
    out = unwritten(n, torch.float32)
    reductions("normal", [out, np.int64(7)], n, 256)
    assert abs(out.double().mean()) < 5 / math.sqrt(n)
    assert abs(out.double().square().mean() - 1) < 5 * math.sqrt(2 / n)
    reductions("uniform_", [out, np.int64(7)], n, 256)
    assert bool(((out >= 0) & (out < 1)).all())
    assert abs(out.double().mean() - 0.5) < 5 * math.sqrt(1 / 12 / n)
    whole = unwritten(n, torch.int64)
    reductions("whole", [whole, np.int64(7)], n, 256)
    assert sorted(set(whole.tolist())) == list(range(-3, 9))
