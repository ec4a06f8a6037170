"""Every function of DeepSpeed that is replaced, and how to tell that it is the one we know.

Functions change their body under the same name and signature, so each row holds digests of the
source of the function in the versions that were read and tested. One that is not known stays in
place.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import re
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from .._environment import is_on
from . import norms, overflow
from ._replace import replace

SUPPORTED = ("0.19.6", "0.19.8")


@dataclass(frozen=True)
class Replacement:
    """One row: `make` is given DeepSpeed's function and gives ours."""

    module: str
    name: str
    make: Callable[[Callable[..., Any]], Callable[..., Any]]
    digests: tuple[str, ...]  # in the versions of SUPPORTED; one where the source is the same
    imported_by: tuple[str, ...] = ()  # modules that hold the function under its own name


def _never(own: Callable[..., Any]) -> Callable[..., Any]:
    """Collectives take mps tensors as they are (mps_ds.distributed), so nothing is staged.

    DeepSpeed's staging copies inputs back after outputs, and so undoes a reduce_scatter whose
    output is a view of its input.
    """
    return functools.wraps(own)(lambda tensor: False)


_UTILS = "deepspeed.runtime.utils"
_ZERO_2 = "deepspeed.runtime.zero.stage_1_and_2"
_ZERO_3 = "deepspeed.runtime.zero.stage3"
_SCALER = "deepspeed.runtime.fp16.loss_scaler"

TABLE = (
    Replacement(
        "deepspeed.comm.torch",
        "_needs_cpu_staging",
        _never,
        ("397bc8e3c9e9f330",),
    ),
    Replacement(
        _UTILS,
        "has_inf_or_nan",
        overflow.has_inf_or_nan,
        ("df13dbbb19af2b66", "1d63f8be1223ed84"),
        (_ZERO_2, _ZERO_3, _SCALER),
    ),
    Replacement(
        _UTILS,
        "CheckOverflow.has_overflow_serial",
        overflow.has_overflow_serial,
        ("a850e0602d335961",),
    ),
    Replacement(
        _SCALER,
        "DynamicLossScaler.has_overflow_serial",
        overflow.has_overflow_serial,
        ("a0d59bbb7a4b80e6",),
    ),
    Replacement(
        _ZERO_2,
        "DeepSpeedZeroOptimizer.has_overflow_partitioned_grads_serial",
        overflow.partitioned_grads,
        ("b6c88fad184df15b",),
    ),
    Replacement(
        _ZERO_3,
        "DeepSpeedZeroOptimizer_Stage3.has_overflow",
        overflow.flat_buffer,
        ("7e2de895e8f80597",),
    ),
    Replacement(
        _ZERO_2,
        "DeepSpeedZeroOptimizer.get_grad_norm_direct",
        norms.stage_1_and_2,
        ("abb03b97f6a11c82", "649b326c3e35e739"),
    ),
    Replacement(
        _ZERO_3,
        "DeepSpeedZeroOptimizer_Stage3.get_grad_norm_direct",
        norms.stage_3,
        ("08cb329681558294", "89e96ae0ed8dd207"),
    ),
    Replacement(
        _ZERO_2,
        "DeepSpeedZeroOptimizer.set_norm_for_param_grad_in_gpu",
        norms.one_partition,
        ("d09dca17714e60e2",),
    ),
    Replacement(
        _ZERO_3,
        "DeepSpeedZeroOptimizer_Stage3._constant_buffered_norm2",
        norms.one_grad,
        ("64b34117feea9aa4",),
    ),
    Replacement(
        _UTILS,
        "get_flattened_grad_norm",
        norms.flattened,
        ("810a8b0caef2319a",),
        ("deepspeed.runtime.fp16.fused_optimizer",),
    ),
    Replacement(
        _UTILS,
        "get_global_norm_of_tensors",
        norms.of_tensors,
        ("859d869c25523664", "ede8f3358b11d0ab"),
        ("deepspeed.runtime.bf16_optimizer",),
    ),
    Replacement(
        _UTILS,
        "clip_grad_norm_",
        norms.clip_grad_norm_,
        ("cca61d709f569183", "2251781e3b839260"),
        ("deepspeed.runtime.engine",),
    ),
)


@functools.cache
def _lines(module: str) -> list[str]:
    found: Any = importlib.import_module(module)
    return (found.__loader__.get_source(module) or "").splitlines(keepends=True)


@functools.cache
def digest(module: str, name: str) -> str:
    """Of the source of a function or method, without its decorators; "" where it is not there.

    Read from the module: what decorators leave in the place of a function has other source. Found
    by its indentation: to parse these modules takes a quarter of a second, in every process.
    """
    try:
        lines = _lines(module)
    except (ImportError, OSError):
        return ""
    indent = ""
    for part in name.split("."):
        if indent:  # within the class that was found
            outside = (i for i, line in enumerate(lines) if i and re.match(r"[\w@]", line))
            lines = lines[: next(outside, len(lines))]
        starts = [i for i, s in enumerate(lines) if re.match(rf"{indent}(class|def) {part}\b", s)]
        if len(starts) != 1:
            return ""
        lines = lines[starts[0] :]
        indent += "    "
    segment = "".join(inspect.getblock(lines)).strip()
    return hashlib.sha256(segment.encode()).hexdigest()[:16]


def apply(undo: ExitStack) -> list[str]:
    """Replace what is known; returns the names of what is not. `undo` puts all back."""
    unknown = []
    for row in TABLE:
        if digest(row.module, row.name) not in row.digests:
            unknown.append(f"{row.module}.{row.name}")
            continue
        owner: Any = importlib.import_module(row.module)
        *path, name = row.name.split(".")
        for part in path:
            owner = getattr(owner, part)
        own = getattr(owner, name)
        ours = row.make(own)
        replace(undo, owner, name, ours)
        for importer in row.imported_by:
            module = importlib.import_module(importer)
            if module.__dict__.get(name) is own:
                replace(undo, module, name, ours)
    return unknown


def complain(version: str, unknown: list[str]) -> None:
    """One warning that names what stays DeepSpeed's own; RuntimeError with MPS_DS_STRICT=1."""
    if not unknown:
        return
    message = (
        f"mps_ds: DeepSpeed {version} differs from the versions this was written for "
        f"({', '.join(SUPPORTED)}); DeepSpeed's own stays in place of: {', '.join(unknown)}"
    )
    if is_on("MPS_DS_STRICT"):
        raise RuntimeError(message)
    warnings.warn(message, stacklevel=4)
