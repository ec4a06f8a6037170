"""The rows of the table: every piece of work beside its peers, and as a share of a copy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import peers
import tables
import torch
from launch import time
from models import MODELS, Shapes, State, gpt2, llama_1b, small
from steps import (
    ADAM_CHUNK,
    Adam,
    AdamTypes,
    Norm,
    adam_source,
    norm_source,
    unscale,
    unscale_source,
)
from tables import Options

Row = dict[str, object]
FP32, BF16 = torch.float32, torch.bfloat16
ADAM_KINDS = {
    "fp32": AdamTypes(),
    "bf16 p and g, fp32 states, scale on the GPU": AdamTypes(BF16, BF16),
    "fp32 master, bf16 grad, bf16 copy": AdamTypes(FP32, BF16, FP32, BF16),
    "all bf16": AdamTypes(BF16, BF16, BF16),
}
GOALS = {  # share of copy
    ("fp32", "llama-1b"): 0.99,
    ("fp32", "gpt2"): 0.97,
    ("bf16 p and g, fp32 states, scale on the GPU", "llama-1b"): 0.97,
    ("bf16 p and g, fp32 states, scale on the GPU", "gpt2"): 0.955,
    ("fp32 master, bf16 grad, bf16 copy", "llama-1b"): 0.97,
    ("fp32 master, bf16 grad, bf16 copy", "gpt2"): 0.955,
}


def state_of(shapes: Shapes, types: AdamTypes) -> State:
    """Tensors of these types."""
    return State(shapes, types.param, types.grad, types.state, types.copy)


def adam_of(state: State, chunk: int = ADAM_CHUNK, types: AdamTypes | None = None) -> Adam:
    """A plan over a state."""
    lists = (state.params, state.exp_avgs, state.exp_avg_sqs, state.copies)
    return Adam(*lists, state.grads[0].dtype, chunk=chunk)


def _row(work: str, model: str, who: str, run: Callable[[], object], **more: object) -> Row:
    taken = time(run)
    called = time(run, ahead=False)
    return {
        "work": work,
        "model": model,
        "who": who,
        "ms": taken.ms,
        "low": taken.low,
        "high": taken.high,
        "ms with the host": called.ms,
        **more,
    }


def _shares(rows: list[Row], size: float, copy: float) -> list[Row]:
    for row in rows:
        row["share of copy"] = size / float(row["ms"]) / copy  # type: ignore[arg-type]
    return rows


def adam_rows(copy: float) -> list[Row]:
    """Adam of every kind over both models, beside all that can do the same."""
    rows = []
    options = Options()
    for model in ("llama-1b", "gpt2"):
        for kind, types in ADAM_KINDS.items():
            state = state_of(MODELS[model](), types)
            scale = torch.ones(1, device="cuda") if "scale" in kind else None
            step = adam_of(state).step(state.grads, options, 5, grad_scale=scale)
            goal = {"goal": GOALS.get((kind, model))}
            own = [_row(f"Adam {kind}", model, "mps_ds", step, **goal)]
            for who, run in peers.adam_peers(state, options).items():
                own.append(_row(f"Adam {kind}", model, who, run))
            rows += _shares(own, types.bytes * state.numel, copy)
            del state, step
            torch.cuda.empty_cache()
    return rows


def small_rows() -> list[Row]:
    """2,000 small tensors: the table reused, and made anew in each step."""
    state, options = State(small()), Options()
    plan = adam_of(state)
    work = "Adam fp32"
    rows = [
        _row(
            f"{work}, table reused", "2000 small", "mps_ds", plan.step(state.grads, options, 5),
            **{"goal ms": 0.017},
        )
    ]  # fmt: skip
    count = len(state.params)
    table = torch.zeros(count * tables.ADAM_STEP_ROW.itemsize, dtype=torch.uint8, device="cuda")
    pinned = torch.zeros(table.shape, dtype=torch.uint8, pin_memory=True)
    together = np.bitwise_or.reduce([plan.rows[n] for n in ("param", "exp_avg", "exp_avg_sq")])
    others = torch.from_numpy(together.astype(np.int64))
    launch = plan.step(state.grads, options, 5, step_rows=table)
    build = peers.extension().step_rows

    def rebuilt() -> None:
        build(state.grads, others, pinned, table)
        launch()

    rows.append(
        _row(f"{work}, table rebuilt and copied", "2000 small", "mps_ds", rebuilt)
        | {"goal ms with the host": 0.060}
    )
    for who, run in peers.adam_peers(state, options).items():
        rows.append(_row(work, "2000 small", who, run))
    return rows


def norm_rows(copy: float) -> list[Row]:
    """Norm and overflow check in one pass; torch's norm, check, clipping."""
    rows = []
    goals = {("llama-1b", FP32): 1.12, ("gpt2", FP32): 0.128}
    for model in ("llama-1b", "gpt2"):
        for dtype in (FP32, BF16, torch.float16):
            state = State(MODELS[model](), BF16, dtype, BF16)
            grads, numel = state.grads, state.numel
            state.params = state.exp_avgs = state.exp_avg_sqs = []
            work = f"norm {str(dtype).removeprefix('torch.')}"
            more = {"goal ms": goals.get((model, dtype)), "goal": 0.95 if dtype == BF16 else None}
            own = [_row(work, model, "mps_ds norm, overflow, coefficient", Norm(grads), **more)]
            for who, run in peers.norm_peers(grads).items():
                own.append(_row(work, model, f"torch {who}", run))
            found, inv = torch.zeros(1, device="cuda"), torch.full((1,), 0.5, device="cuda")
            own.append(_row(work, model, "mps_ds unscale", unscale(grads, found, inv)))
            rows += _shares(own, dtype.itemsize * numel, copy)
            del state, grads
            torch.cuda.empty_cache()
    return rows


def mixed_step_rows() -> list[Row]:
    """A whole step from bf16 gradients with clipping, step counts and skipping on the device."""
    rows = []
    types = AdamTypes(FP32, BF16, FP32, BF16)
    for model in ("llama-1b", "gpt2"):
        state, options = state_of(MODELS[model](), types), Options()
        grads = state.grads
        norm = Norm(grads, max_norm=1.0)
        steps = [torch.full((1,), 4.0, device="cuda") for _ in state.params]
        lists = (state.params, state.exp_avgs, state.exp_avg_sqs, state.copies)
        plan = Adam(*lists, BF16, steps)
        plan.start(options)
        adam = plan.step(grads, options, 1, found_inf=norm.found_inf, clip_coef=norm.coef)

        def ours(norm: Norm = norm, adam: Callable[[], None] = adam) -> None:
            norm()
            adam()

        own = _row("mixed step with clipping", model, "mps_ds", ours, **{"goal times": 2.4})
        state.grads = [g.float() for g in grads]
        peer = _row(
            "mixed step with clipping",
            model,
            "torch",
            peers.torch_mixed_step(state, grads, options),
        )
        own["times faster"] = float(peer["ms"]) / float(own["ms"])  # type: ignore[arg-type]
        rows += [own, peer]
        del state, grads, plan, norm, adam, steps, ours
        torch.cuda.empty_cache()
    return rows


# ---- sweeps ----


def size_rows() -> list[Row]:
    """fp32 Adam: one tensor of 1 k to 1 G elements, and 1 to 10,000 tensors of 30 k."""
    rows = []
    lists: list[tuple[str, int, Shapes]] = [
        ("elements", 10**k * m, [(10**k * m,)]) for k in range(3, 9) for m in (1, 3)
    ]
    lists.append(("elements", 10**9, [(10**9,)]))
    lists += [("tensors", n, [(30_000,)] * n) for n in (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)]
    for axis, count, shapes in lists:
        state, options = State(shapes), Options()
        runs = {"mps_ds": adam_of(state).step(state.grads, options, 5)}
        runs |= peers.adam_peers(state, options)
        for who, run in runs.items():
            gpu = time(run, 15)
            called = time(run, 9, 1, ahead=False)
            rows.append(
                {
                    "axis": axis,
                    "count": count,
                    "who": who,
                    "ms": gpu.ms,
                    "ms with the host": called.ms,
                }
            )
        del state, runs
        torch.cuda.empty_cache()
    return rows


SWEEP_CHUNKS = (768, 1024, 1536, 2048, 3072, 4096, 8192, 16384)
SWEEP_THREADS = (96, 128, 192, 256, 384, 512, 768, 1024)


def choice_rows(copy: float) -> list[Row]:
    """Every chunk with every number of threads, over both models."""
    rows = []
    for model, shapes in (("llama-1b", llama_1b()), ("gpt2", gpt2())):
        for kind, types in ADAM_KINDS.items():
            state = state_of(shapes, types)
            for chunk in SWEEP_CHUNKS:
                plan = adam_of(state, chunk)
                for threads in SWEEP_THREADS:
                    if threads > plan.kernel.max_threads:
                        continue
                    own = (
                        threads * types.threads // AdamTypes().threads
                    )  # half, where all is 16 bits
                    ms = time(plan.step(state.grads, Options(), 5, own), 7, 1).ms
                    share = types.bytes * state.numel / ms / copy
                    rows.append(
                        {"model": model, "kind": kind, "chunk": chunk, "threads": threads}
                        | {"share of copy": share, "registers": plan.kernel.registers}
                    )
            del state, plan
            torch.cuda.empty_cache()
    return rows


def sources() -> list:
    """All kernels, to be compiled at once."""
    kinds = [adam_source(types) for types in ADAM_KINDS.values()]
    kinds.append(adam_source(AdamTypes(FP32, BF16, FP32, BF16, True)))
    dtypes = (FP32, BF16, torch.float16)
    kinds += [norm_source(t) for t in dtypes] + [unscale_source(t) for t in dtypes]
    return kinds


def choice_sources() -> list:
    """Those of the sweep."""
    return [adam_source(types, chunk) for types in ADAM_KINDS.values() for chunk in SWEEP_CHUNKS]
