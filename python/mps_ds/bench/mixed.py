"""A whole mixed-precision step with clipping, beside torch's sequence of calls."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from .cases import (
    LR,
    WEIGHT_DECAY,
    Case,
    Contestant,
    Work,
    cases_of,
    means_of,
    new_states,
    parameters,
    states_of,
    tensors,
    torch_adamw,
)
from .shapes import Shapes

GROUP = "mixed"
MAX_NORM = 1.0


def cases(lists: Iterable[Shapes]) -> list[Case]:
    """float32 parameters under a GradScaler; bfloat16 parameters with float32 masters."""
    return cases_of(
        GROUP,
        lists,
        [
            ("scaler", "GradScaler, clip, AdamW; fp32", 16 + 8, scaler_step),
            ("master", "cast, check, clip, AdamW on fp32 masters, bf16 copy", 20 + 8, master_step),
        ],
    )


def new_scaler(device: str) -> torch.amp.GradScaler:
    """One whose scale is 1 and stays: torch unscales gradients in place, at each repetition."""
    scaler = torch.amp.GradScaler(device, init_scale=1.0, growth_interval=2**31 - 1)
    scaler.scale(torch.ones((), device=device))
    return scaler


def scaler_step(shapes: Shapes, device: str) -> dict[str, Contestant]:
    """Ours reads gradients for the norm and for the step, and writes none."""
    from mps_ds.optim import FusedAdam

    least = (4 + 28) * shapes.elements
    params = parameters(shapes, device, torch.float32)
    ours, scaler = FusedAdam(params, lr=LR, weight_decay=WEIGHT_DECAY), new_scaler(device)

    def one_call() -> None:
        ours.step(scaler=scaler, max_norm=MAX_NORM)
        scaler.update()

    one_call()

    def sequence(optimizer: torch.optim.Optimizer) -> Work:
        scaler = new_scaler(device)

        def work() -> None:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(params, MAX_NORM)
            scaler.step(optimizer)
            scaler.update()

        return work

    contestants = {"mps_ds FusedAdam": Contestant(one_call, least, ours=True)}
    for name, optimizer in torch_adamw(params, states_of(ours, params)).items():
        contestants[name] = Contestant(sequence(optimizer), least)
    return contestants


def master_step(shapes: Shapes, device: str) -> dict[str, Contestant]:
    """What libraries of mixed precision do once a gradient in bfloat16 is there."""
    from mps_ds.ops import adam_

    least = (2 + 28) * shapes.elements
    masters = parameters(shapes, device, torch.float32)
    grads = tensors(shapes, device, torch.bfloat16, 0.01)
    copies = [torch.empty_like(grad) for grad in grads]
    values = [master.detach() for master in masters]
    states = new_states(masters)
    exp_avgs, exp_avg_sqs = means_of(states)
    scale = torch.ones((), device=device)
    grads32 = [master.grad for master in masters if master.grad is not None]
    check = torch._amp_foreach_non_finite_check_and_unscale_

    def two_calls() -> None:
        # What FusedAdam.step(scaler=, max_norm=) does, for params that are kept apart.
        _, found_inf, coef = torch.ops.mps_ds._grad_norm(grads, scale, MAX_NORM, 2.0)
        adam_(
            masters, grads, exp_avgs, exp_avg_sqs, 2, lr=LR, weight_decay=WEIGHT_DECAY,
            copies=copies, grad_scale=scale, found_inf=found_inf, clip_coef=coef,
        )  # fmt: skip

    def sequence(optimizer: torch.optim.Optimizer) -> Work:
        def work() -> None:
            torch._foreach_copy_(grads32, grads)
            found_inf = torch.zeros((), device=device)
            check(grads32, found_inf, torch.ones(1, device=device))
            torch.nn.utils.clip_grad_norm_(masters, MAX_NORM)
            if optimizer.defaults["fused"]:
                optimizer.found_inf = found_inf  # type: ignore[attr-defined]
                optimizer.grad_scale = None  # type: ignore[attr-defined]
                optimizer.step()
            elif not found_inf.item():
                optimizer.step()
            with torch.no_grad():
                torch._foreach_copy_(copies, values)

        return work

    contestants = {"mps_ds, 3 dispatches": Contestant(two_calls, least, ours=True)}
    for name, optimizer in torch_adamw(masters, states).items():
        contestants[name] = Contestant(sequence(optimizer), least)
    return contestants
