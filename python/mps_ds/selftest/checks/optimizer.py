"""FusedAdam as an optimizer: steps, states, autograd, and what it refuses."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mps_ds.selftest.reference import Array, Options, Values, adam
from mps_ds.selftest.report import Figure

ULP_A_STEP = 2.0
"""Two roundings of half an ulp each, of the decayed and of the new parameter, and those of the
update, which is a hundredth of the parameter: together well below two."""


def _param(size: int, seed: int) -> nn.Parameter:
    """Magnitudes in [0.5, 1), so that one ulp is the same for every element."""
    generator = torch.Generator().manual_seed(seed)
    sign = torch.randint(0, 2, (size,), generator=generator) * 2 - 1
    return nn.Parameter((sign * (0.5 + 0.5 * torch.rand(size, generator=generator))).to("mps"))


def _grads(size: int, seed: int) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield torch.randn(size, generator=generator)


def step_counts() -> list[Figure]:
    """Two parameters, the second without a gradient in step 2: it counts 1, 2, and not 1, 3."""
    from mps_ds.optim import FusedAdam

    options = Options(lr=1e-2, weight_decay=0.01)
    params = [_param(100, 1), _param(50, 2)]
    sources = [_grads(100, 3), _grads(50, 4)]
    optimizer = FusedAdam(params, lr=options.lr, weight_decay=options.weight_decay)
    wanted = [_start(param) for param in params]
    counts = [0, 0]
    for present in ((True, True), (True, False), (True, True)):
        for i, param in enumerate(params):
            grad = next(sources[i])
            param.grad = grad.to("mps") if present[i] else None
            if present[i]:
                counts[i] += 1
                wanted[i] = adam(wanted[i], _float64(grad), counts[i], options).values
        optimizer.step()
    figures = []
    for i, param in enumerate(params):
        error = _error_in_ulp(_float64(param), wanted[i].param)
        bound = ULP_A_STEP * counts[i]
        figures.append(Figure(f"parameter with {counts[i]} steps", error, "<=", bound, "ulp"))
        figures.append(
            Figure("  its step count", float(optimizer.state[param]["step"]), "==", counts[i])
        )
    return figures


def _float64(tensor: Tensor) -> Array:
    return tensor.detach().cpu().numpy().astype(np.float64)


def _error_in_ulp(got: Array, wanted: Array) -> float:
    """In ulp of the parameters' own binade, [0.5, 1)."""
    return float(np.max(np.abs(got - wanted))) / 2**-24


def _start(param: Tensor) -> Values:
    value = _float64(param)
    return Values(value, np.zeros_like(value), np.zeros_like(value))


def stale_backward() -> list[Figure]:
    """A graph that saved a parameter must not be differentiated after step() has changed it."""
    from mps_ds.optim import FusedAdam

    param = _param(16, 1)
    optimizer = FusedAdam([param], lr=1e-2)
    param.grad = torch.ones_like(param)
    loss = (param * param).sum()
    optimizer.step()
    try:
        loss.backward()  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
        return [Figure("stale backwards that raised", 1, "==", 1)]
    return [Figure("stale backwards that raised", 0, "==", 1)]


def state_dicts() -> list[Figure]:
    """Three steps, the state into the other optimizer, three more; against one that went on."""
    from mps_ds.optim import FusedAdam

    makers: dict[str, Callable[..., torch.optim.Optimizer]] = {
        "AdamW into FusedAdam": torch.optim.AdamW,
        "FusedAdam into AdamW": FusedAdam,
    }
    figures = []
    for name, first in makers.items():
        second = FusedAdam if first is torch.optim.AdamW else torch.optim.AdamW
        unbroken = _trajectory(first, first, [])
        differing: list[int] = []
        handed_over = _trajectory(first, second, differing)
        error = _error_in_ulp(handed_over, unbroken)
        figures.append(Figure(f"{name}: state elements that differ", sum(differing), "==", 0))
        # Each side may be off by ULP_A_STEP in each of the three steps after the hand-over.
        figures.append(
            Figure(f"{name}: after 3 more steps", error, "<=", 2 * 3 * ULP_A_STEP, "ulp")
        )
    return figures


def _trajectory(
    first: Callable[..., torch.optim.Optimizer],
    second: Callable[..., torch.optim.Optimizer],
    differing: list[int],
) -> Array:
    """The parameter after 3 steps with one optimizer and 3 with another that loaded its state."""
    param = _param(300, 7)
    source = _grads(300, 8)

    def steps(optimizer: torch.optim.Optimizer) -> None:
        for _ in range(3):
            param.grad = next(source).to("mps")
            optimizer.step()

    settings = {"lr": 1e-2, "weight_decay": 0.1}
    before = first([param], **settings)
    steps(before)
    saved = before.state_dict()
    after = second([param], lr=1.0)  # the loaded state brings its own lr
    after.load_state_dict(saved)
    for name in ("exp_avg", "exp_avg_sq", "step"):
        a, b = (torch.as_tensor(o.state[param][name]).cpu() for o in (before, after))
        differing.append(int((a != b).sum()))
    steps(after)
    return _float64(param)


def bad_input() -> list[Figure]:
    """Each mistake raises an error that names it, before anything is written."""
    cases = bad_cases()
    refused = untouched = 0
    missed = []
    for name, (call, word, watched) in cases.items():
        before = watched.detach().cpu().clone()
        try:
            call()
        except (RuntimeError, ValueError, TypeError) as error:
            if word in str(error):
                refused += 1
            else:
                missed.append(f"{name} (its message does not say {word!r}: {error})")
        else:
            missed.append(f"{name} (no error)")
        untouched += bool(torch.equal(watched.detach().cpu(), before))
    if missed:
        raise AssertionError("not refused as it should be: " + "; ".join(missed))
    return [
        Figure("mistakes refused by name", refused, "==", len(cases)),
        Figure("of them with nothing written", untouched, "==", len(cases)),
    ]


Case = tuple[Callable[[], object], str, Tensor]


def bad_cases() -> dict[str, Case]:
    """Name: the call, a word that its message must hold, and a tensor that it must not write."""
    from mps_ds import ops
    from mps_ds.optim import FusedAdam

    def ones(*shape: int, **options: Any) -> Tensor:
        return torch.ones(*shape, **{"device": "mps", **options})

    def case(word: str, second: list[Tensor], steps: Any = 2, **options: Any) -> Case:
        first = [ones(4) for _ in range(4)]
        p, g, m, v = ([a, b] for a, b in zip(first, second, strict=True))
        return (lambda: ops.adam_(p, g, m, v, steps, **{"lr": 0.1, **options})), word, first[0]

    fine = [ones(4) for _ in range(4)]
    sparse = ones(4).cpu().to_sparse()
    shared = ones(8)
    cases = {
        "integer param": case("params[1]", [ones(4, dtype=torch.int32), *fine[1:]]),
        "half exp_avg": case("exp_avgs[1]", [*fine[:2], ones(4, dtype=torch.half), fine[3]]),
        "grad of another shape": case("grads[1]", [fine[0], ones(5), *fine[2:]]),
        "grad on the CPU": case("grads[1]", [fine[0], ones(4, device="cpu"), *fine[2:]]),
        "sparse grad": case("grads[1]", [fine[0], sparse, *fine[2:]]),
        "overlapping params": case("share memory", [shared[:4], fine[1], shared[2:6], fine[3]]),
        "steps of another length": case("steps", fine, steps=[1, 2, 3]),
        "step 0": case("step", fine, steps=0),
        "negative lr": case("lr", fine, lr=-0.1),
        "beta1 of 1": case("beta1", fine, beta1=1.0),
        "negative eps": case("eps", fine, eps=-1e-8),
        "lists of different lengths": (
            lambda: ops.adam_(fine, fine[:1], fine, fine, 1, lr=0.1),
            "grads has 1 entries",
            fine[0],
        ),
    }
    param = nn.Parameter(ones(4))
    cases["FusedAdam, differentiable"] = (
        lambda: FusedAdam([param], differentiable=True),
        "differentiable",
        param,
    )
    cases["FusedAdam with a negative lr"] = (lambda: FusedAdam([param], lr=-1.0), "-1", param)
    return cases
