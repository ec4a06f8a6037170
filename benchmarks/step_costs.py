"""What a step costs on the device: dispatches, and bytes an element. Counted, not timed.

    MPS_DS_SOFT=1 python benchmarks/step_costs.py        # Linux: the software device counts

Bytes are those of a tracing build of the kernels: every load and store of params, gradients and
states. Beside them stands the least that the step can move: what it must read and write, once.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from mps_ds import softmetal, softmps
from mps_ds.ops import adam_
from mps_ds.optim import FusedAdam

FP32, FP16, BF16 = torch.float32, torch.float16, torch.bfloat16
NUMEL = 1 << 16

# params, grads, states, copy, amsgrad, least bytes an element
TRAFFIC = {
    "fp32": (FP32, FP32, FP32, None, False, 28),
    "bf16 param and grad, fp32 states": (BF16, BF16, FP32, None, False, 22),
    "fp16 param and grad, fp32 states": (FP16, FP16, FP32, None, False, 22),
    "all bf16": (BF16, BF16, BF16, None, False, 14),
    "all fp16": (FP16, FP16, FP16, None, False, 14),
    "fp32 master and grad, bf16 copy": (FP32, FP32, FP32, BF16, False, 30),
    "fp32 master, bf16 grad and copy": (FP32, BF16, FP32, BF16, False, 28),
    "fp32, amsgrad": (FP32, FP32, FP32, None, True, 36),
}


def parameters(count: int, dtypes: tuple[torch.dtype, ...] = (FP32,)) -> list[nn.Parameter]:
    """Parameters with gradients, of these dtypes in turn."""
    params = []
    for i in range(count):
        param = nn.Parameter(torch.ones(1000, device="mps", dtype=dtypes[i % len(dtypes)]))
        param.grad = torch.ones_like(param)
        params.append(param)
    return params


def dispatches(step: Callable[[], object]) -> dict[str, int]:
    """Of the second step: the first makes states."""
    step()
    torch.mps.synchronize()
    softmps.reset_counters()
    step()
    counted = softmps.counters()
    names = ("dispatches", "commits", "waits", "host_reads")
    return {name: counted[name] for name in names}


def scaled_step(optimizer: FusedAdam) -> Callable[[], object]:
    """A step that looks for overflow, unscales and clips."""
    scaler = torch.amp.GradScaler("mps")
    scaler.scale(torch.ones((), device="mps"))

    def step() -> None:
        optimizer.step(scaler=scaler, max_norm=1.0)
        scaler._per_optimizer_states.clear()  # update() without its own dispatches

    return step


def print_dispatches() -> None:
    """What each kind of step encodes."""
    clipped = FusedAdam(parameters(300))
    cases = {
        "Adam, 1 tensor": FusedAdam(parameters(1)).step,
        "Adam, 2,000 tensors": FusedAdam(parameters(2000)).step,
        "Adam, step counts on the device": FusedAdam(parameters(300), capturable=True).step,
        "Adam, two dtypes": FusedAdam(parameters(300, (FP32, BF16))).step,
        "Adam, three dtypes": FusedAdam(parameters(300, (FP32, BF16, FP16))).step,
        "norm clipped, Adam": lambda: clipped.step(max_norm=1.0),
        "scaler, overflow, norm clipped, Adam": scaled_step(FusedAdam(parameters(300))),
    }
    print(f"{'a step':40}{'dispatches':>11}{'commits':>9}{'waits':>7}{'host reads':>12}")
    for name, step in cases.items():
        print(f"{name:40}" + "{:11}{:9}{:7}{:12}".format(*dispatches(step).values()))


def print_traffic() -> None:
    """What each combination of types moves."""
    print(f"\n{'Adam':40}{'bytes an element':>18}{'the least':>11}")
    for name, (param, grad, state, copy, amsgrad, least) in TRAFFIC.items():
        dtypes = (param, grad, state, state)
        lists = [[torch.ones(NUMEL, device="mps", dtype=dtype)] for dtype in dtypes]
        options = {}
        if copy is not None:
            options["copies"] = [torch.empty(NUMEL, device="mps", dtype=copy)]
        if amsgrad:
            options["max_exp_avg_sqs"] = [torch.ones(NUMEL, device="mps", dtype=state)]
        with softmetal.tracing() as trace:
            adam_(*lists, 1, lr=1e-3, **options)
        moved = trace.kernels["adam"].declared.bytes / NUMEL
        print(f"{name:40}{moved:18.2f}{least:11}")


if __name__ == "__main__":
    print(f"torch {torch.__version__}, software device")
    print_dispatches()
    print_traffic()
