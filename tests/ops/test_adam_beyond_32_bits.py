"""Params of more than 2^32 elements: the kernel itself, on chunks of sparse buffers.

Memory that nobody touches costs nothing, so buffers of 8 GB are made and the table names only a few
of their chunks: the last one, and those around the boundaries of 32-bit arithmetic.
"""

import importlib.util
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

if sys.platform != "linux":
    pytest.skip("the software Metal device is for Linux", allow_module_level=True)

from mps_ds import softmetal as metal

ROOT = Path(__file__).parents[2]
CHUNK = 1536  # ADAM_CHUNK of csrc/mps/kernels/adam_tables.h
NUMEL = (2**32 // CHUNK + 2) * CHUNK + 13
BFLOAT16 = 2
WIDE, STRIDED = 2, 4  # AdamStepRow::flags
LR = 0.5


def source() -> str:
    """adam.metal as it is embedded, so that the compiled library of the build is found."""
    path = ROOT / "cmake" / "embed_metal.py"
    spec = importlib.util.spec_from_file_location("embed_metal", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kernel = ROOT / "csrc" / "mps" / "kernels" / "adam.metal"
    return "\n".join(module.flatten(kernel, set())) + "\n"


@pytest.fixture(scope="module")
def device():
    return metal.Device()


@pytest.fixture(scope="module")
def library(device):
    return device.new_library_with_source(source(), metal.precise_options())


def pipeline(device, library, strided: bool):
    values = metal.FunctionConstantValues()
    for index, value in enumerate((BFLOAT16, BFLOAT16, BFLOAT16, 3, 0, int(strided), 0, 0)):
        values.set_constant_value(struct.pack("I", value), metal.DataType.UINT, index)
    function = library.new_function_with_name("adam", values)
    return device.new_compute_pipeline_state_with_function(function)


def hyper() -> bytes:
    """AdamHyper with betas and eps of 0, uncorrected: a param moves by LR against its gradient."""
    one, zero, lr = (1.0, 0.0), (0.0, 0.0), (LR, 0.0)
    # grad_factor, l2, keep, beta1, 1 - beta1, beta2, 1 - beta2, rsqrt_correction2, step_size, eps,
    # lr, weight_decay, inv_correction1
    pairs = [one, zero, one, zero, one, zero, one, one, lr, zero, lr, zero, one]
    numbers = [x for pair in pairs for x in pair] + [0.0, np.inf]
    return struct.pack("28f2I", *numbers, 0, 1)


class Setting:
    """Param, exp_avg, exp_avg_sq and grad of NUMEL bfloat16 elements, and their tables."""

    def __init__(self, device, chunks, flags, dims=b"", dim_count=0):
        self.device = device
        self.tensors = [device.new_buffer_with_length(2 * NUMEL) for _ in range(4)]
        param, grad, exp_avg, exp_avg_sq = (b.gpu_address for b in self.tensors)
        rows = struct.pack("7Q", param, exp_avg, exp_avg_sq, 0, 0, 0, NUMEL)
        step_rows = struct.pack("2Q4I", grad, 0, 0, flags | BFLOAT16 << 8, 0, dim_count)
        table = b"".join(struct.pack("2I", 0, chunk) for chunk in chunks)
        self.count = len(chunks)
        self.tables = [self._table(t) for t in (rows, table, step_rows, hyper(), dims or bytes(56))]

    def _table(self, data: bytes):
        return self.device.new_buffer_with_bytes(data)

    def view(self, k: int) -> np.ndarray:
        return metal.array(self.tensors[k], np.uint16)

    def clear(self, chunks):
        """New buffers may hold what earlier tests left."""
        for k in range(4):
            values = self.view(k)
            for chunk in chunks:
                values[chunk * CHUNK : (chunk + 1) * CHUNK] = 0

    def run(self, state):
        commands = self.device.new_command_queue().command_buffer()
        encoder = commands.compute_command_encoder()
        encoder.set_compute_pipeline_state(state)
        for index, buffer in enumerate(self.tables):
            encoder.set_buffer(buffer, 0, index)
        encoder.set_bytes(struct.pack("Q2fIi", 0, 1.0, 1.0, 0, 0), 5)
        for index in (6, 7, 8, 9, 10, 11):
            encoder.set_buffer(self.tables[0], 0, index)
        encoder.use_resources(self.tensors, 3)
        encoder.dispatch_threadgroups((self.count, 1, 1), (256, 1, 1))
        encoder.end_encoding()
        commands.commit()
        commands.wait_until_completed()
        assert commands.error is None, commands.error


ONE, MINUS_HALF = 0x3F80, 0xBF00


@pytest.mark.parametrize("flags", [WIDE, 0], ids=["wide", "scalar"])
def test_chunks_around_and_beyond_32_bits(device, library, flags):
    chunks = [0, 2**31 // CHUNK - 1, 2**31 // CHUNK, 2**32 // CHUNK - 1, 2**32 // CHUNK,
              2**32 // CHUNK + 2]  # fmt: skip
    neighbours = (1, 2, 3, 2**31 // CHUNK - 2, 2**31 // CHUNK + 1, 2**32 // CHUNK + 1)
    setting = Setting(device, chunks, flags)
    setting.clear([*chunks, *neighbours])
    grads, params = setting.view(1), setting.view(0)
    for chunk in chunks:
        grads[chunk * CHUNK : min((chunk + 1) * CHUNK, NUMEL)] = ONE
    setting.run(pipeline(device, library, strided=False))
    for chunk in chunks:
        end = min((chunk + 1) * CHUNK, NUMEL)
        assert (params[chunk * CHUNK : end] == MINUS_HALF).all()
    # Neighbours, and where 32-bit arithmetic would have landed, are untouched.
    for chunk in neighbours:
        assert not params[chunk * CHUNK : (chunk + 1) * CHUNK].any()
    assert NUMEL % CHUNK == 13


def test_strides_beyond_32_bits(device, library):
    # Two rows of 4 elements, more than 2^32 elements apart in each tensor.
    stride = 2**32 + CHUNK
    dims = struct.pack("Q6q", 4, *[1] * 6) + struct.pack("Q6q", 2, *[stride] * 6)
    setting = Setting(device, [0], STRIDED, dims, 2)
    metal.array(setting.tables[0], np.uint64)[6] = 8  # numel
    for base in (0, stride):
        setting.view(1)[base : base + 4] = ONE
    setting.run(pipeline(device, library, strided=True))
    for base in (0, stride):
        assert (setting.view(0)[base : base + 4] == MINUS_HALF).all()
        assert not setting.view(0)[base + 4 : base + CHUNK].any()
    assert not setting.view(0)[CHUNK : 2 * CHUNK].any()  # stride modulo 2^32


def test_views_that_begin_beyond_32_bits():
    torch = pytest.importorskip("torch")
    from mps_ds.ops import adam_

    if not torch.backends.mps.is_available():
        pytest.skip("no mps device in this build")
    flat = torch.empty(2**32 + 200, dtype=torch.bfloat16, device="mps")
    param, grad, exp_avg, exp_avg_sq = (flat[2**32 + k : 2**32 + k + 9] for k in (1, 31, 71, 101))
    start = flat[:200]
    for tensor in (start, param, exp_avg, exp_avg_sq):
        tensor.zero_()
    grad.fill_(1.0)
    adam_([param], [grad], [exp_avg], [exp_avg_sq], 1, lr=LR, beta1=0.0, beta2=0.0, eps=0.0)
    assert param.tolist() == [-LR] * 9
    assert not start.any().item()
