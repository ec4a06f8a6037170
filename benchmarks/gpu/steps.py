"""The project's operations on CUDA tensors: tables, arguments, launches, as csrc/mps has them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tables
import torch
from launch import Kernel, Source
from msl_to_cuda import KERNELS, Specialisation
from tables import Options, Tensors, upload

ADAM_CHUNK = tables.macro("adam_tables.h", "ADAM_CHUNK")
NORM_THREADS = tables.macro("norm_tables.h", "NORM_THREADS")
SCALE_CHUNK = tables.macro("scale_tables.h", "SCALE_CHUNK")
SCALE_THREADS = tables.macro("scale_tables.h", "SCALE_THREADS")
NORM_L2 = tables.macro("norm_tables.h", "NORM_L2")
NORM_WRITES = 2 | 4 | 8  # total, found_inf, coefficient
LETTER = {torch.float32: "f", torch.float16: "h", torch.bfloat16: "b", None: "n"}


# ---- specialisations ----


@dataclass(frozen=True)
class AdamTypes:
    """What a pipeline of adam.metal is made for."""

    param: torch.dtype = torch.float32
    grad: torch.dtype = torch.float32
    state: torch.dtype = torch.float32
    copy: torch.dtype | None = None
    device_steps: bool = False

    @property
    def threads(self) -> int:
        """ADAM_THREADS of adam_tables.h: two blocks of 16 bytes of a state for each."""
        return ADAM_CHUNK // 2 // (16 // self.state.itemsize)

    @property
    def bytes(self) -> int:
        """The least that a step moves, for an element."""
        return (
            2 * self.param.itemsize
            + self.grad.itemsize
            + 4 * self.state.itemsize
            + (self.copy.itemsize if self.copy else 0)
        )


def adam_source(types: AdamTypes, chunk: int = ADAM_CHUNK) -> Source:
    """adam.metal for these types, cut into chunks of this size."""
    dtypes = (types.param, types.grad, types.state, types.copy)
    values = [*(tables.TYPE[t] for t in dtypes), 0, 0, int(types.device_steps), 0]
    letters = "".join(LETTER[t] for t in dtypes) + ("d" if types.device_steps else "")
    name = f"adam_{letters}_{chunk}"
    choice = Specialisation(name, dict(enumerate(values)), {"ADAM_CHUNK": chunk})
    return Source(KERNELS / "adam.metal", choice)


def norm_source(dtype: torch.dtype) -> Source:
    """norm.metal for the L2 norm of aligned tensors of one type."""
    constants = {0: NORM_L2, 1: tables.TYPE[dtype], 2: 0}
    return Source(KERNELS / "norm.metal", Specialisation(f"norm_{LETTER[dtype]}", constants))


def unscale_source(dtype: torch.dtype) -> Source:
    """scale.metal as multi_tensor_unscale_ has it: in place, checked."""
    kind = tables.TYPE[dtype]
    constants = dict(enumerate([kind, kind, kind, 0, 0, 1, 0, 1]))
    return Source(KERNELS / "scale.metal", Specialisation(f"scale_{LETTER[dtype]}", constants))


# ---- Adam ----


class Adam:
    """A plan: the tables that outlive a step, and the launches of steps."""

    def __init__(
        self,
        params: Tensors,
        exp_avgs: Tensors,
        exp_avg_sqs: Tensors,
        copies: Tensors | None = None,
        grad_type: torch.dtype = torch.float32,
        device_steps: Tensors | None = None,
        kernel: Kernel | None = None,
        chunk: int = ADAM_CHUNK,
    ) -> None:
        self.types = AdamTypes(
            params[0].dtype,
            grad_type,
            exp_avgs[0].dtype,
            copies[0].dtype if copies else None,
            device_steps is not None,
        )
        self.kernel = kernel or Kernel(adam_source(self.types, chunk), "adam")
        self.held = (params, exp_avgs, exp_avg_sqs, copies, device_steps)
        self.rows = tables.adam_rows(params, exp_avgs, exp_avg_sqs, copies, device_steps)
        chunks = tables.chunks([p.numel() for p in params], chunk)
        self.groups = len(chunks)
        self.row_table, self.chunk_table = upload(self.rows), upload(chunks)
        size = tables.ADAM_PROGRESS_BYTES * len(params) if device_steps is not None else 16
        self.progress = [torch.zeros(size, dtype=torch.uint8, device="cuda") for _ in range(2)]

    def start(self, options: Options) -> None:
        """Step counts on the device: where each param is."""
        kernel = Kernel(adam_source(self.types), "adam_start")
        step_rows = upload(np.zeros(len(self.rows), tables.ADAM_STEP_ROW))
        hypers = upload(tables.adam_hyper(options, 1))
        count = ctypes.c_uint32(len(self.rows))
        groups = -(-len(self.rows) // 256)
        for table in self.progress:
            kernel.bind(groups, 256, self.row_table, step_rows, hypers, table, count)()

    def step(
        self,
        grads: Tensors,
        options: Options,
        step: int,
        threads: int | None = None,
        found_inf: torch.Tensor | None = None,
        grad_scale: torch.Tensor | None = None,
        clip_coef: torch.Tensor | None = None,
        step_rows: torch.Tensor | None = None,
    ) -> Callable[[], None]:
        """The launch of a step; `step_rows`: a table that is already on the device."""
        if step_rows is None:
            step_rows = upload(tables.adam_step_rows(self.rows, grads))
        hypers = upload(tables.adam_hyper(options, step))
        flags = 0
        scalars = []
        for tensor, flag in (
            (found_inf, tables.FOUND_INF),
            (grad_scale, tables.GRAD_SCALE),
            (clip_coef, tables.CLIP_COEF),
        ):
            flags |= flag if tensor is not None else 0
            scalars.append(tensor if tensor is not None else hypers)
        return self.kernel.bind(
            self.groups,
            threads or self.types.threads,
            *(self.row_table, self.chunk_table, step_rows, hypers, hypers),
            tables.adam_call(flags),
            *(*scalars, hypers, *self.progress),
        )


# ---- norms and scaling ----


class Norm:
    """norm_and_non_finite: the total norm, found_inf and the clip coefficient, in two launches."""

    def __init__(self, tensors: Tensors, max_norm: float = float("inf")) -> None:
        source = norm_source(tensors[0].dtype)
        numels = [t.numel() for t in tensors]
        span = tables.norm_span(sum(numels))
        job = np.zeros(1, tables.NORM_JOB)
        job["span"], job["max_norm"], job["clips"] = span, max_norm, int(np.isfinite(max_norm))
        job_bytes = job.tobytes()
        rows, chunks = tables.tensor_rows(tensors), tables.chunks(numels, span)
        assert not rows["layout"].any(), "the pipeline is made for aligned tensors"
        segment = np.zeros(1, tables.NORM_SEGMENT)
        segment["end"], segment["writes"] = len(chunks), NORM_WRITES
        device_rows, device_chunks = upload(rows), upload(chunks)
        partials = torch.empty(16 * len(chunks), dtype=torch.uint8, device="cuda")
        one = torch.ones(1, device="cuda")
        self.total, self.found_inf, self.coef = torch.full((3, 1), -1.0, device="cuda")
        self.parts = Kernel(source, "norm_partials").bind(
            len(chunks),
            NORM_THREADS,
            *(device_rows, device_chunks, device_rows, job_bytes, partials),
        )
        self.finish = Kernel(source, "norm_finish").bind(
            1,
            NORM_THREADS,
            *(partials, upload(segment), job_bytes, one, one),
            *(self.total, self.found_inf, self.coef),
        )

    def __call__(self) -> None:
        """Both dispatches."""
        self.parts()
        self.finish()


def unscale(
    grads: Tensors,
    found_inf: torch.Tensor,
    inv_scale: torch.Tensor,
    threads: int = SCALE_THREADS,
) -> Callable[[], None]:
    """multi_tensor_unscale_ in place; found_inf is set to 1, never cleared."""
    rows = tables.tensor_rows(grads, grads, grads)
    chunks = tables.chunks([g.numel() for g in grads], SCALE_CHUNK)
    job = np.zeros(1, tables.SCALE_JOB)
    job["found_bits"] = np.float32(1).view(np.uint32)
    device_rows = upload(rows)
    return Kernel(unscale_source(grads[0].dtype), "scale").bind(
        len(chunks),
        threads,
        *(device_rows, upload(chunks), device_rows, job.tobytes(), inv_scale, found_inf),
    )
