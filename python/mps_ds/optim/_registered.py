"""What an optimizer has registered with the native code, and its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from operator import is_, itemgetter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..ops.adam import AdamPlan
from ._flat import step_counts
from ._options import check_lr_devices, device_lrs

if TYPE_CHECKING:
    from .fused_adam import FusedAdam

_exp_avg = itemgetter("exp_avg")
_exp_avg_sq = itemgetter("exp_avg_sq")
_step = itemgetter("step")


@dataclass
class Scalars:
    """What a step multiplies gradients with, and whether it is one; as :func:`mps_ds.ops.adam_`."""

    grad_scale: Tensor | None = None
    found_inf: Tensor | None = None
    clip_coef: Tensor | None = None
    seed: int | None = None

    def skips_on_device(self) -> bool:
        """Whether only the device knows if the step counts."""
        return self.found_inf is not None and self.found_inf.device.type != "cpu"


class Registered:
    """The parameters that have states, as the last look at the optimizer found them.

    Everything here is a copy of what users can change (param groups, states, their tensors), so
    every step compares: with C loops over identities, which cost far less than the step itself.
    """

    def __init__(self, optimizer: FusedAdam, everyone: list[Tensor], device_steps: bool) -> None:
        state = optimizer.state
        self.everyone = everyone
        self.group_sizes = [len(g["params"]) for g in optimizer.param_groups]
        self.amsgrads = [bool(g["amsgrad"]) for g in optimizer.param_groups]
        self.state_dicts = list(state.values())
        groups = chain.from_iterable(repeat(i, n) for i, n in enumerate(self.group_sizes))
        members = [(p, i) for p, i in zip(everyone, groups, strict=True) if state.get(p)]
        self.params = [p for p, _ in members]
        self.groups = [i for _, i in members]
        self.waiting = [p for p in everyone if not state.get(p)]  # never had a gradient
        self.states = [state[p] for p in self.params]
        self.exp_avgs = list(map(_exp_avg, self.states))
        self.exp_avg_sqs = list(map(_exp_avg_sq, self.states))
        self.amsgrad_rows = [row for row, group in enumerate(self.groups) if self.amsgrads[group]]
        self.max_exp_avg_sqs = [self.states[row]["max_exp_avg_sq"] for row in self.amsgrad_rows]
        self.device = self.params[0].device if self.params else torch.device("cpu")
        self.step_tensors: list[Tensor] = []
        self.steps_version = -1
        if device_steps and self.device.type == "mps":
            self._move_steps()
        self.state_bases = _bases(
            chain(self.exp_avgs, self.exp_avg_sqs, self.max_exp_avg_sqs, self.step_tensors)
        )
        self.plan: AdamPlan | None = None
        if self.device.type == "mps":
            self.plan = AdamPlan(
                self.params,
                self.exp_avgs,
                self.exp_avg_sqs,
                self.groups,
                max_exp_avg_sqs=self.max_exp_avg_sqs,
                amsgrad_rows=self.amsgrad_rows,
                step_tensors=self.step_tensors,
            )

    def _move_steps(self) -> None:
        """Keep the step counts on the device from now on."""
        counts = [state["step"] for state in self.states]
        if any(isinstance(count, Tensor) for count in counts):
            present = [torch.as_tensor(c, dtype=torch.float32, device=self.device) for c in counts]
            self.step_tensors = list(torch.stack([c.reshape(()) for c in present]).unbind())
        else:
            self.step_tensors = step_counts(counts, self.device)
        for state, step in zip(self.states, self.step_tensors, strict=True):
            state["step"] = step

    def is_current(self, optimizer: FusedAdam) -> bool:
        """Whether the optimizer still has these parameters, groups and states, and no others."""
        groups = optimizer.param_groups
        everyone = chain.from_iterable(g["params"] for g in groups)
        try:
            return (
                [len(g["params"]) for g in groups] == self.group_sizes
                and [bool(g["amsgrad"]) for g in groups] == self.amsgrads
                and all(map(is_, everyone, self.everyone))
                and (not self.params or self.params[0].device == self.device)
                and len(optimizer.state) == len(self.state_dicts)
                and all(map(is_, optimizer.state.values(), self.state_dicts))
                and all(map(is_, map(_exp_avg, self.states), self.exp_avgs))
                and all(map(is_, map(_exp_avg_sq, self.states), self.exp_avg_sqs))
                and all(
                    self.states[row]["max_exp_avg_sq"] is tensor
                    for row, tensor in zip(self.amsgrad_rows, self.max_exp_avg_sqs, strict=True)
                )
                and (
                    not self.step_tensors
                    or all(map(is_, map(_step, self.states), self.step_tensors))
                )
                and all(p.grad is None for p in self.waiting)
            )
        except KeyError:  # a state was emptied
            return False

    def gradients(self) -> tuple[list[Tensor], list[int]]:
        """The gradients there are, and the rows that they belong to (none: all, in order)."""
        grads = [p.grad for p in self.params]
        rows: list[int] = []
        if any(map(is_, grads, repeat(None))):
            rows = [i for i, grad in enumerate(grads) if grad is not None]
            grads = [grads[i] for i in rows]
        present: list[Tensor] = grads  # type: ignore[assignment]
        return present, rows

    def step(self, groups: list[dict[str, Any]], options: list[float], scalars: Scalars) -> bool:
        """Step the parameters that have gradients; False where the plan must be made anew."""
        grads, rows = self.gradients()
        if not grads:
            return True
        check_lr_devices(groups, self.device)
        if self.step_tensors:
            return self._step_with_counts_on_device(groups, grads, rows, options, scalars)
        states = [self.states[i] for i in rows] if rows else self.states
        steps = [s["step"] + 1 for s in states]
        if set(map(type, steps)) != {int}:  # somebody set one
            steps = list(map(int, steps))
        if self.plan is None:
            self._step_on_cpu(grads, rows or range(len(grads)), steps, options, scalars)
        elif not self._step_plan(groups, grads, rows, steps, options, scalars):
            return False
        if scalars.found_inf is not None and bool(scalars.found_inf != 0):
            return True  # on the CPU: read at no cost
        for state, count in zip(states, steps, strict=True):
            state["step"] = count
        return True

    def _step_with_counts_on_device(
        self,
        groups: list[dict[str, Any]],
        grads: list[Tensor],
        rows: list[int],
        options: list[float],
        scalars: Scalars,
    ) -> bool:
        version = self.step_tensors[0]._version
        changed = version != self.steps_version
        if not self._step_plan(groups, grads, rows, [], options, scalars, changed):
            return False
        self.steps_version = self.step_tensors[0]._version
        return True

    def _step_plan(
        self,
        groups: list[dict[str, Any]],
        grads: list[Tensor],
        rows: list[int],
        steps: list[int],
        options: list[float],
        scalars: Scalars,
        steps_changed: bool = False,
    ) -> bool:
        assert self.plan is not None
        if not self.plan.step(
            grads,
            rows,
            steps,
            options,
            lr_tensors=device_lrs(groups, self.device),
            grad_scale=scalars.grad_scale,
            found_inf=scalars.found_inf,
            clip_coef=scalars.clip_coef,
            seed=scalars.seed,
            steps_changed=steps_changed,
        ):
            return False
        written = [self.params[i] for i in rows] if rows else self.params
        torch.autograd.graph.increment_version(chain(written, self.state_bases))
        return True

    def _step_on_cpu(
        self,
        grads: list[Tensor],
        rows: Sequence[int],
        steps: list[int],
        options: list[float],
        scalars: Scalars,
    ) -> None:
        """The CPU has no launches to save: no plan."""
        position = {row: at for at, row in enumerate(rows)}
        amsgrad = [
            (position[row], tensor)
            for row, tensor in zip(self.amsgrad_rows, self.max_exp_avg_sqs, strict=True)
            if row in position
        ]
        torch.ops.mps_ds.adam_(
            [self.params[i] for i in rows],
            grads,
            [self.exp_avgs[i] for i in rows],
            [self.exp_avg_sqs[i] for i in rows],
            [tensor for _, tensor in amsgrad],
            [row for row, _ in amsgrad],
            [],
            [],
            [self.groups[i] for i in rows],
            steps,
            options,
            [],
            scalars.grad_scale,
            scalars.found_inf,
            scalars.clip_coef,
            None,
            scalars.seed,
        )


def _bases(tensors: chain[Tensor]) -> list[Tensor]:
    """The distinct tensors that these are views of; views share their version counters."""
    bases = (t if t._base is None else t._base for t in tensors)
    return list({id(t): t for t in bases}.values())
