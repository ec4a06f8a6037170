"""torch.mps.compile_shader: argument passing and errors as PyTorch's."""

from __future__ import annotations

import pytest
import torch

import mps_ds.softmps as softmps

SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void fill(device float* out, constant float& value, uint i [[thread_position_in_grid]]) {
  out[i] = value;
}
kernel void fill_long(device long* out, constant long& value, uint i [[thread_position_in_grid]]) {
  out[i] = value;
}
kernel void fill_int(device int* out, constant int& value, uint i [[thread_position_in_grid]]) {
  out[i] = value;
}
kernel void fill_half(device half* out, constant half& value, uint i [[thread_position_in_grid]]) {
  out[i] = value;
}
kernel void fill_bfloat(device bfloat* out, constant bfloat& value,
                        uint i [[thread_position_in_grid]]) {
  out[i] = value;
}
kernel void pick(device float* out, constant float* values, uint i [[thread_position_in_grid]]) {
  out[i] = values[i];
}
kernel void where_am_i(device int* out, uint2 p [[thread_position_in_grid]],
                       uint2 n [[threads_per_grid]], uint2 g [[threads_per_threadgroup]]) {
  out[p.y * n.x + p.x] = p.y * 100 + p.x * 10 + g.x;
}
"""


@pytest.fixture(scope="module")
def kernels():
    return torch.mps.compile_shader(SOURCE)


def test_names_and_properties(kernels) -> None:
    assert "fill_bfloat" in dir(kernels)
    assert kernels.fill.thread_execution_width == 32
    assert kernels.fill.max_threads_per_threadgroup == 1024
    assert kernels.fill.static_thread_group_memory_length == 0


def test_numbers_are_float_and_int64(kernels) -> None:
    x = torch.zeros(3, device="mps")
    kernels.fill(x, 2.5)
    assert x.tolist() == [2.5] * 3
    y = torch.zeros(3, dtype=torch.int64, device="mps")
    kernels.fill_long(y, -(1 << 40))
    assert y.tolist() == [-(1 << 40)] * 3


@pytest.mark.parametrize("casts", ["int32", {1: "int32"}])
def test_casts_of_integers(kernels, casts) -> None:
    x = torch.zeros(3, dtype=torch.int32, device="mps")
    kernels.fill_int(x, -7, arg_casts=casts)
    assert x.tolist() == [-7] * 3


@pytest.mark.parametrize(
    ("name", "cast", "dtype"),
    [("fill_half", "fp16", torch.float16), ("fill_bfloat", "bf16", torch.bfloat16)],
)
def test_casts_of_floats(kernels, name, cast, dtype) -> None:
    x = torch.zeros(3, dtype=dtype, device="mps")
    getattr(kernels, name)(x, 0.3, arg_casts=cast)
    assert x.tolist() == [torch.tensor(0.3, dtype=dtype).item()] * 3


def test_lists_views_and_cpu_scalars(kernels) -> None:
    x = torch.zeros(6, device="mps")
    kernels.pick(x[2:5], [1.0, 2.0, 3.0])
    assert x.tolist() == [0, 0, 1, 2, 3, 0]
    kernels.fill(x, torch.tensor(4.0, dtype=torch.float64))  # narrowed: Metal has no double
    assert x.tolist() == [4] * 6


def test_grids_of_two_dimensions(kernels) -> None:
    x = torch.zeros(2, 3, dtype=torch.int32, device="mps")
    kernels.where_am_i(x, threads=(3, 2), group_size=(2, 1))
    assert x.tolist()[1][:2] == [102, 112]


WRONG = {
    "no threads": (lambda k, x: k.fill(1.0, x), "Number of threads is undefined"),
    "too many dimensions": (lambda k, x: k.fill(x, 1.0, threads=(1, 1, 1, 1)), "less than 3"),
    "dimensions differ": (
        lambda k, x: k.fill(x, 1.0, threads=(3, 1), group_size=3),
        "same number of dimensions",
    ),
    "group too large": (
        lambda k, x: k.fill(x, 1.0, threads=9, group_size=4096),
        "Threadgroup size exceeds 1024 limit",
    ),
    "cpu tensor": (lambda k, x: k.fill(x.cpu(), 1.0), "Passed CPU tensor to MPS op"),
    "argument type": (lambda k, x: k.fill(x, "1"), "Unsupported argument type"),
    "mixed list": (lambda k, x: k.pick(x, [1.0, 2]), "Unexpected argument types"),
    "empty list": (lambda k, x: k.pick(x, []), "Empty list/tuple can not be an argument"),
    "cast": (lambda k, x: k.fill(x, 1.0, arg_casts="int4"), "Unsupported cast instruction int4"),
    "missing kernel": (lambda k, x: k.nothing(x), "create function state object for: nothing"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_calls_raise_before_anything_is_encoded(kernels, case) -> None:
    call, message = WRONG[case]
    x = torch.zeros(3, device="mps")
    softmps.reset_counters()
    with pytest.raises(RuntimeError, match=message):
        call(kernels, x)
    assert softmps.counters()["dispatches"] == 0


def test_source_that_does_not_compile() -> None:
    with pytest.raises(
        RuntimeError, match=r"(?s)Failed to create metal library, error: .*undeclar"
    ):
        torch.mps.compile_shader("kernel void k(device float* x) { x[0] = undeclared_name; }")


def test_headers_of_pytorch_are_embedded() -> None:
    library = torch.mps.compile_shader(
        "#include <c10/metal/common.h>\n"
        "kernel void k(device float* x, uint i [[thread_position_in_grid]]) { x[i] = 2; }"
    )
    x = torch.zeros(2, device="mps")
    library.k(x)
    assert x.tolist() == [2, 2]


def test_precompiled_libraries_are_refused() -> None:
    with pytest.raises(RuntimeError, match="compile from source"):
        torch.mps.load_metallib(b"MTLB")
