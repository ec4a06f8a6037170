"""The tables that kernels read (csrc/mps/kernels/*_tables.h), filled as csrc/mps fills them.

Lists of tensors are dense here: strides are covered by the project's tests, not by benchmarks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from msl_to_cuda import KERNELS

FLOAT32, FLOAT16, BFLOAT16, NONE = range(4)
TYPE = {torch.float32: FLOAT32, torch.float16: FLOAT16, torch.bfloat16: BFLOAT16, None: NONE}


def macro(file: str, name: str) -> int:
    """A number that a header of the kernels defines."""
    text = (KERNELS / file).read_text()
    found = re.search(rf"(?m)^#define {name} (\d+)u?\b", text)
    assert found, f"{name} in {file}"
    return int(found[1])


# ---- layouts ----

PAIRS = ("grad_factor", "l2", "keep", "beta1", "one_minus_beta1", "beta2", "one_minus_beta2")
PAIRS += ("rsqrt_correction2", "step_size", "eps", "lr", "weight_decay", "inv_correction1")
ADAM_HYPER = np.dtype(
    [(name, np.float32, 2) for name in PAIRS]
    + [("decay", np.float32), ("clip_value", np.float32), ("flags", np.uint32)]
    + [("step", np.uint32)]
)
_POINTERS = ("param", "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "copy", "step", "numel")
ADAM_ROW = np.dtype([(name, np.uint64) for name in _POINTERS])
ADAM_STEP_ROW = np.dtype(
    [(name, np.uint64) for name in ("grad", "lr")]
    + [(name, np.uint32) for name in ("hyper", "flags", "dim_begin", "dim_count")]
)
ADAM_CALL = np.dtype(
    {
        "names": ["seed", "grad_scale", "clip_coef", "flags"],
        "formats": [np.uint64, np.float32, np.float32, np.uint32],
        "itemsize": 24,
    }
)
ADAM_PROGRESS_BYTES = 20
CHUNK = np.dtype([("row", np.uint32), ("index", np.uint32)])
TENSOR_ROW_1 = np.dtype(
    [("data", np.uint64, 1), ("numel", np.uint64)]
    + [(name, np.uint32) for name in ("types", "layout", "dim_begin", "dim_count")]
)
TENSOR_ROW_3 = np.dtype([("data", np.uint64, 3), *TENSOR_ROW_1.descr[1:]])
NORM_SEGMENT = np.dtype([(name, np.uint32) for name in ("begin", "end", "slot", "writes")])
NORM_JOB = np.dtype([("span", np.uint32), ("max_norm", np.float32), ("clips", np.uint32)])
SCALE_JOB = np.dtype([("b", np.float32), ("found_bits", np.uint32)])
assert (ADAM_HYPER.itemsize, ADAM_ROW.itemsize, ADAM_STEP_ROW.itemsize) == (120, 56, 32)

# Flags of adam_tables.h and adam_types.h.
ADAM_WIDE = macro("adam_tables.h", "ADAM_WIDE")
FOUND_INF = macro("adam_tables.h", "ADAM_FOUND_INF")
GRAD_SCALE = macro("adam_tables.h", "ADAM_GRAD_SCALE")
CLIP_COEF = macro("adam_tables.h", "ADAM_CLIP_COEF")
ADAM_W = macro("adam_types.h", "ADAM_W")
BIAS_CORRECTION = macro("adam_types.h", "ADAM_BIAS_CORRECTION")


def upload(table: np.ndarray, device: str = "cuda") -> torch.Tensor:
    """A table as bytes on the device."""
    return torch.frombuffer(bytearray(table.tobytes()), dtype=torch.uint8).to(device)


def chunks(numels: Sequence[int], size: int) -> np.ndarray:
    """(row, index) for each `size` elements of each tensor."""
    counts = np.array([-(-n // size) for n in numels], dtype=np.int64)
    table = np.empty(int(counts.sum()), CHUNK)
    table["row"] = np.repeat(np.arange(len(counts)), counts)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    table["index"] = np.arange(len(table)) - first
    return table


# ---- Adam ----


@dataclass(frozen=True)
class Options:
    """Of one param group."""

    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.01
    adam_w_mode: bool = True


def _split(x: float) -> tuple[np.float32, np.float32]:
    high = np.float32(x)
    return high, np.float32(x - float(high))


def adam_hyper(options: Options, step: int) -> np.ndarray:
    """csrc/adam_hyper.cpp, in the same double precision."""
    o = options
    correction1 = 1.0 - math.pow(o.beta1, step)
    correction2 = 1.0 - math.pow(o.beta2, step)
    decay = o.lr * o.weight_decay if o.adam_w_mode else 0.0
    values = {
        "grad_factor": 1.0,
        "l2": 0.0 if o.adam_w_mode else o.weight_decay,
        "keep": 1.0 - decay,
        "beta1": o.beta1,
        "one_minus_beta1": 1.0 - o.beta1,
        "beta2": o.beta2,
        "one_minus_beta2": 1.0 - o.beta2,
        "rsqrt_correction2": 1.0 / math.sqrt(correction2),
        "step_size": o.lr / correction1,
        "eps": o.eps,
        "lr": o.lr,
        "weight_decay": o.weight_decay,
        "inv_correction1": 1.0 / correction1,
    }
    hyper = np.zeros(1, ADAM_HYPER)
    for name, value in values.items():
        hyper[name] = _split(value)
    hyper["decay"] = decay
    hyper["clip_value"] = np.inf
    hyper["flags"] = (ADAM_W if o.adam_w_mode else 0) | BIAS_CORRECTION
    hyper["step"] = step
    return hyper


Tensors = Sequence[torch.Tensor]


def addresses(tensors: Tensors) -> np.ndarray:
    """Of the tensors' elements."""
    return np.array([t.data_ptr() for t in tensors], np.uint64)


def adam_rows(
    params: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    copies: Tensors | None = None,
    steps: Tensors | None = None,
) -> np.ndarray:
    """What outlives a step."""
    rows = np.zeros(len(params), ADAM_ROW)
    rows["param"] = addresses(params)
    rows["exp_avg"] = addresses(exp_avgs)
    rows["exp_avg_sq"] = addresses(exp_avg_sqs)
    if copies is not None:
        rows["copy"] = addresses(copies)
    if steps is not None:
        rows["step"] = addresses(steps)
    rows["numel"] = [p.numel() for p in params]
    return rows


def adam_step_rows(rows: np.ndarray, grads: Tensors) -> np.ndarray:
    """What a step brings. Wide where every address is aligned to 16 bytes."""
    table = np.zeros(len(rows), ADAM_STEP_ROW)
    table["grad"] = addresses(grads)
    together = table["grad"].copy()
    for name in ("param", "exp_avg", "exp_avg_sq", "copy"):
        together |= rows[name]
    grad_type = np.uint32(TYPE[grads[0].dtype])
    table["flags"] = np.where(together % 16 == 0, ADAM_WIDE, 0) | grad_type << np.uint32(8)
    return table


def adam_call(flags: int = 0) -> bytes:
    """AdamCall: no scale and no clipping by the host."""
    call = np.zeros(1, ADAM_CALL)
    call["grad_scale"] = call["clip_coef"] = 1.0
    call["flags"] = flags
    return call.tobytes()


# ---- norms and scaling ----


def norm_span(numel: int) -> int:
    """csrc/norm_work.cpp: elements of a chunk."""
    span = 8192
    while span < 262144 and numel > span * 4096:
        span *= 2
    return span


def tensor_rows(*lists: Tensors) -> np.ndarray:
    """One row for the tensors that stand at one place of the lists; all dense."""
    table = np.zeros(len(lists[0]), TENSOR_ROW_1 if len(lists) == 1 else TENSOR_ROW_3)
    data = np.stack([addresses(tensors) for tensors in lists], 1)
    table["data"] = data
    table["numel"] = [t.numel() for t in lists[0]]
    table["layout"] = (data % 16 != 0).any(1)  # ROW_WIDE or ROW_FLAT
    for k, tensors in enumerate(lists):
        table["types"] |= np.array([TYPE[t.dtype] for t in tensors], np.uint32) << np.uint32(8 * k)
    return table
