"""The CUDA translation of the kernels computes what the operations compute, bit for bit.

Without a GPU: the translation is compiled for the processor, with CUDA's words defined for one
thread at a time.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tables
import torch
from msl_to_cuda import HERE, KERNELS, Specialisation, TranslationError, flatten, translate

import mps_ds.ops

SHIM = Path(__file__).parent / "cuda_on_cpu"
COMPILER = os.environ.get("CXX", "c++")
CHUNK = tables.macro("adam_tables.h", "ADAM_CHUNK")
FP32, FP16, BF16 = torch.float32, torch.float16, torch.bfloat16

# params, grads, states, copies
TYPES = {
    "fp32": (FP32, FP32, FP32, None),
    "master with copy": (FP32, BF16, FP32, BF16),
    "bf16, fp32 states": (BF16, BF16, FP32, None),
    "all fp16": (FP16, FP16, FP16, None),
}


def translation(kernel: str, constants: list[int], **macros: int) -> str:
    choice = Specialisation("k", dict(enumerate(constants)), macros)
    return translate(flatten(KERNELS / f"{kernel}.metal"), choice)


def compiled(text: str, folder: Path, program: str, *flags: str) -> Path:
    """`program` of cuda_on_cpu, or nothing but the translation where it is empty."""
    (folder / "k.cu").write_text(text)
    library = folder / "k.so"
    command = [COMPILER, "-std=c++17", "-O1", "-ffp-contract=off", "-fPIC", "-shared", "-w", *flags]
    command += [f"-I{SHIM}", f"-I{HERE}", "-x", "c++", "-o", str(library)]
    if program:
        command += [f'-DTRANSLATION="{folder / "k.cu"}"', str(SHIM / program)]
    else:
        command.append(str(folder / "k.cu"))
    subprocess.run(command, check=True)
    return library


class OnCpu:
    """Adam of one combination of types, run thread by thread."""

    def __init__(self, types, folder: Path) -> None:
        values = [*(tables.TYPE[t] for t in types), 0, 0, 0, 0]
        library = compiled(translation("adam", values), folder, "run_adam.cpp")
        self.run = ctypes.CDLL(str(library)).run_adam

    def step(self, params, grads, exp_avgs, exp_avg_sqs, copies, options, step) -> None:
        rows = tables.adam_rows(params, exp_avgs, exp_avg_sqs, copies)
        chunks = tables.chunks([p.numel() for p in params], CHUNK)
        uploaded = [rows, chunks, tables.adam_step_rows(rows, grads)]
        buffers = [tables.upload(t, "cpu") for t in (*uploaded, tables.adam_hyper(options, step))]
        pointers = (ctypes.c_void_p * 4)(*(b.data_ptr() for b in buffers))
        self.run(len(chunks), 32, pointers, tables.adam_call())


@pytest.fixture(scope="module", params=TYPES)
def adam(request, tmp_path_factory):
    types = TYPES[request.param]
    return types, OnCpu(types, tmp_path_factory.mktemp("adam"))


def tensors(types, values) -> list:
    """Params, grads, states and copies from (param, grad, exp_avg, exp_avg_sq) arrays."""
    param, grad, state, copy = types
    dtypes = (param, grad, state, state)
    lists = [
        [torch.tensor(v).to(t) for v in column] for column, t in zip(values, dtypes, strict=True)
    ]
    return [*lists, None if copy is None else [p.to(copy) for p in lists[0]]]


def assert_equal_steps(adam, values, options: tables.Options, step: int) -> None:
    types, on_cpu = adam
    ours, theirs = tensors(types, values), tensors(types, values)
    on_cpu.step(*ours, options, step)
    params, grads, exp_avgs, exp_avg_sqs, copies = theirs
    more = {} if copies is None else {"copies": copies}
    mps_ds.ops.adam_(params, grads, exp_avgs, exp_avg_sqs, step, **vars(options), **more)
    for a, b in zip(ours, theirs, strict=True):
        for one, other in zip(a or [], b or [], strict=True):
            bits = torch.int32 if one.dtype == FP32 else torch.int16
            same = one.view(bits) == other.view(bits)
            assert bool((same | (one.isnan() & other.isnan())).all())


@pytest.mark.parametrize("adam_w_mode", [True, False])
def test_a_step_has_the_bits_of_the_operation(adam, adam_w_mode):
    rng = np.random.default_rng(1)
    sizes = (1, 7, CHUNK, 2 * CHUNK + 5)
    scales = (1, 1, 0.1, 0.01)
    values = [
        [scale * rng.standard_normal(n).astype(np.float32) for n in sizes] for scale in scales
    ]
    values[3] = [np.abs(v) for v in values[3]]
    assert_equal_steps(adam, values, tables.Options(adam_w_mode=adam_w_mode), 7)


def test_what_is_not_finite_takes_the_guarded_way(adam):
    special = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 3e38, 1e-30]
    columns = np.stack(np.meshgrid(*[special] * 3, np.abs(special)), -1).reshape(-1, 4)
    values = [[column.astype(np.float32)] for column in columns.T]
    for weight_decay in (0.0, 0.1):
        assert_equal_steps(adam, values, tables.Options(weight_decay=weight_decay), 3)


@pytest.mark.parametrize("dtype", [0, 1, 2])
def test_norm_and_scale_are_cpp_after_translation(tmp_path, dtype):
    for kernel, constants in (
        ("norm", [0, dtype, 0]),
        ("scale", [dtype, dtype, dtype, 0, 0, 1, 0, 1]),
    ):
        text = translation(kernel, constants)
        assert not re.search(r"\b(device|constant|thread|threadgroup|kernel)\b", text)
        compiled(text, tmp_path, "")


def test_constants_and_macros_are_those_that_were_asked_for():
    text = translation("adam", [0, 2, 0, 3, 0, 0, 1, 0], ADAM_CHUNK=4096)
    assert "constexpr uint grad_type" in text
    assert re.search(r"grad_type\s*= 2\s*;", text)
    assert "ulong(chunk.index) * 4096" in text


@pytest.mark.parametrize(
    ("constants", "macros", "message"),
    [
        ([0, 0], {}, "no value for state_type"),
        ([0] * 9, {}, r"no function constants \[8\]"),
        ([0] * 8, {"ADAM_CHUNKS": 1}, "ADAM_CHUNKS is defined 0 times"),
    ],
)
def test_a_choice_that_does_not_fit_is_an_error(constants, macros, message):
    with pytest.raises(TranslationError, match=message):
        translation("adam", constants, **macros)


def test_an_unknown_attribute_is_an_error():
    source = "kernel void f(device float* x [[texture(0)]]) { x[0] = 1.0; }\n"
    with pytest.raises(TranslationError, match=r"\[\[texture\]\]"):
        translate(source, Specialisation("k"))


def test_an_instance_of_a_template_is_an_entry_point_with_a_grid_of_threads():
    source = (
        "template <typename T> kernel void f(device T* x [[buffer(0)]], constant float& a "
        "[[buffer(1)]], uint i [[thread_position_in_grid]]) { x[i] = T(a); }\n"
        'template [[host_name("f_float")]] kernel void f<float>(device float*, constant float&, '
        "uint);\n"
    )
    text = " ".join(translate(source, Specialisation("k")).split())
    assert 'extern "C" __global__ void k_f_float(float * a0, float a1, uint threads)' in text
    assert "if (position < threads) f < float >(a0, a1, position);" in text
