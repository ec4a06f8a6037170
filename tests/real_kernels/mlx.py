"""Which headers of MLX an instance needs; the order is that of MLX's own kernels."""

import numpy as np
import torch

KERNELS = "mlx/backend/metal/kernels"


def includes(*headers: str) -> str:
    """`#include` lines of headers of MLX's kernels, after what all of them need."""
    names = ["utils.h", *headers]
    lines = ["#include <metal_stdlib>", "using namespace metal;"]
    lines += [f'#include "{KERNELS}/{name}"' for name in names]
    return "\n".join(lines) + "\n"


def uint(value: int) -> np.uint32:
    """An argument `constant uint&`."""
    return np.uint32(value)


def long(value: int) -> np.int64:
    """An argument `constant int64_t&`."""
    return np.int64(value)


def ints(*values: int) -> bytes:
    """An argument `constant int*`."""
    return np.array(values, np.int32).tobytes()


def longs(*values: int) -> bytes:
    """An argument `constant int64_t*`."""
    return np.array(values, np.int64).tobytes()


def int32(value: int) -> np.int32:
    """An argument `constant int&`."""
    return np.int32(value)


def raw(tensor: torch.Tensor) -> bytes:
    """An argument that is set with setBytes: instead of a buffer."""
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
