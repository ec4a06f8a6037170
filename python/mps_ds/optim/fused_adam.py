"""Adam and AdamW in one Metal dispatch for all parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, repeat
from operator import is_, itemgetter
from typing import Any

import torch
from torch import Tensor
from torch._compile import _disable_dynamo  # torch.compiler.disable would import all of dynamo
from torch.optim import Optimizer

from ..ops.adam import AdamPlan, adam_
from ._flat import zeros_like_each

_exp_avg = itemgetter("exp_avg")
_exp_avg_sq = itemgetter("exp_avg_sq")


class FusedAdam(Optimizer):
    r"""Adam or AdamW: one dispatch a step for any number of parameters and param groups.

    A drop-in for `torch.optim.AdamW` and, with `adam_w_mode=False`, `torch.optim.Adam`; also takes
    the options of DeepSpeed's optimizer of this name. The formula is that of
    :func:`mps_ds.ops.adam_`. A step reads nothing back from the GPU and waits for nothing.

    State: `exp_avg` and `exp_avg_sq`, float32 and laid out as the parameter, as views of few large
    buffers (`torch.save` of one of them saves its buffer); `step`, an int, of each parameter.
    `state_dict()` is that of `torch.optim.AdamW`, and each loads the other's; the state dict of
    `torch.optim.Adam` too. Whether weight decay is decoupled is decided by the constructor, not by
    what is loaded.

    Args:
        params: float32 parameters of any shape and strides, on one device (`mps`, or `cpu`), or
            param groups, or named parameters. Not sparse, not complex.
        lr: learning rate; a float, or a 0-dim CPU tensor.
        betas: decay rates of the running means of the gradient and of its square, each in [0, 1).
        eps: added to the root of the second mean.
        weight_decay: decoupled (AdamW), or an L2 penalty (`adam_w_mode=False`).
        amsgrad: not supported; True raises.
        maximize: ascend instead of descend.
        foreach: accepted for compatibility; without effect.
        capturable: not supported; True raises.
        differentiable: not supported; True raises.
        fused: accepted for compatibility; this optimizer is always fused.
        adam_w_mode: True: AdamW; False: Adam.
        bias_correction: False leaves the means uncorrected.
        set_grad_none: what `zero_grad()` does unless told otherwise: drop the gradients (True), or
            fill them with zeros.

    Raises:
        ValueError: an option is outside its range, or not supported.
        RuntimeError: from `step()`, before anything is written: a parameter or gradient is sparse,
            of another dtype than float32 or on another device; names which.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        adam_w_mode: bool = True,
        bias_correction: bool = True,
        set_grad_none: bool = True,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "adam_w_mode": bool(adam_w_mode),
            "decoupled_weight_decay": bool(adam_w_mode),  # torch.optim.Adam's name of it
            "bias_correction": bool(bias_correction),
            "set_grad_none": set_grad_none,
        }
        self._registered: _Registered | None = None
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a param group, checking its options. See `torch.optim.Optimizer.add_param_group`."""
        _check_options({**self.defaults, **param_group})
        self._registered = None
        super().add_param_group(param_group)

    def zero_grad(self, set_to_none: bool | None = None) -> None:
        """Reset the gradients; None means what `set_grad_none` said."""
        if set_to_none is None:
            set_to_none = self.defaults["set_grad_none"]
        super().zero_grad(set_to_none)

    @_disable_dynamo
    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step for every parameter that has a gradient.

        Args:
            closure: reevaluates the model and returns the loss.

        Returns:
            The closure's loss, or None.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        registered = self._registered
        if registered is None or not registered.is_current(self):
            registered = self._register()
        if not registered.step(self.param_groups):  # a tensor's memory has moved
            self._register().step(self.param_groups)
        return loss

    def state_dict(self) -> dict[str, Any]:
        """The state as that of `torch.optim.AdamW`: `step` as a float32 tensor on the CPU."""
        state_dict = super().state_dict()
        state_dict["state"] = {
            index: {**state, "step": torch.tensor(float(state["step"]))}
            if "step" in state
            else state
            for index, state in state_dict["state"].items()
        }
        return state_dict

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._registered = None
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)
            for name in ("adam_w_mode", "decoupled_weight_decay"):
                group[name] = self.defaults["adam_w_mode"]
            _check_options(group)
            for param in group["params"]:
                param_state = self.state.get(param)
                if param_state and "exp_avg" in param_state:
                    # Without one: DeepSpeed and apex have kept it in the group.
                    param_state["step"] = int(param_state.get("step", group.get("step", 0)))
        self._flatten()

    def _flatten(self) -> None:
        """Move states that came one by one (a loaded state dict) into few buffers."""
        owners = [p for g in self.param_groups for p in g["params"] if self.state.get(p)]
        for key in ("exp_avg", "exp_avg_sq"):
            for device in {p.device for p in owners}:
                params = [p for p in owners if p.device == device]
                with torch.no_grad():
                    for param, flat in zip(params, zeros_like_each(params), strict=True):
                        self.state[param][key] = flat.copy_(self.state[param][key])

    def _register(self) -> _Registered:
        """Make states for parameters that have their first gradient, and a plan for all."""
        everyone = [p for g in self.param_groups for p in g["params"]]
        _check_params(everyone)
        new = [p for p in everyone if p.grad is not None and not self.state.get(p)]
        for param, exp_avg, exp_avg_sq in zip(
            new, zeros_like_each(new), zeros_like_each(new), strict=True
        ):
            self.state[param] = {"step": 0, "exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq}
        self._registered = _Registered(self, everyone)
        return self._registered


class _Registered:
    """The parameters that have states, as the last look at the optimizer found them.

    Everything here is a copy of what users can change (param groups, states, their tensors), so
    every step compares: with C loops over identities, which cost far less than the step itself.
    """

    def __init__(self, optimizer: FusedAdam, everyone: list[Tensor]) -> None:
        state = optimizer.state
        self.everyone = everyone
        self.group_sizes = [len(g["params"]) for g in optimizer.param_groups]
        self.state_dicts = list(state.values())
        groups = chain.from_iterable(repeat(i, n) for i, n in enumerate(self.group_sizes))
        members = [(p, i) for p, i in zip(everyone, groups, strict=True) if state.get(p)]
        self.params = [p for p, _ in members]
        self.groups = [i for _, i in members]
        self.waiting = [p for p in everyone if not state.get(p)]  # never had a gradient
        self.states = [state[p] for p in self.params]
        self.exp_avgs = list(map(_exp_avg, self.states))
        self.exp_avg_sqs = list(map(_exp_avg_sq, self.states))
        # Views share the version counter of their base.
        written = (
            t if t._base is None else t._base for t in chain(self.exp_avgs, self.exp_avg_sqs)
        )
        self.state_bases = list({id(t): t for t in written}.values())
        self.plan: AdamPlan | None = None
        if self.params and self.params[0].device.type == "mps":
            self.plan = AdamPlan(self.params, self.exp_avgs, self.exp_avg_sqs, self.groups)

    def is_current(self, optimizer: FusedAdam) -> bool:
        """Whether the optimizer still has these parameters, groups and states, and no others."""
        groups = optimizer.param_groups
        everyone = chain.from_iterable(g["params"] for g in groups)
        return (
            [len(g["params"]) for g in groups] == self.group_sizes
            and all(map(is_, everyone, self.everyone))
            and len(optimizer.state) == len(self.state_dicts)
            and all(map(is_, optimizer.state.values(), self.state_dicts))
            and all(map(is_, map(_exp_avg, self.states), self.exp_avgs))
            and all(map(is_, map(_exp_avg_sq, self.states), self.exp_avg_sqs))
            and all(p.grad is None for p in self.waiting)
        )

    def step(self, groups: list[dict[str, Any]]) -> bool:
        """Step the parameters that have gradients; False where the plan must be made anew."""
        grads = [p.grad for p in self.params]
        rows: list[int] = []
        if any(map(is_, grads, repeat(None))):
            rows = [i for i, grad in enumerate(grads) if grad is not None]
            if not rows:
                return True
            grads = [grads[i] for i in rows]
        states = [self.states[i] for i in rows] if rows else self.states
        steps = [int(s["step"]) + 1 for s in states]
        present: list[Tensor] = grads  # type: ignore[assignment]
        if self.plan is None:
            self._step_on_cpu(present, rows or range(len(grads)), steps, groups)
            return True
        options = list(chain.from_iterable(map(_options, groups)))
        if not self.plan.step(present, rows, steps, options):
            return False
        for state, count in zip(states, steps, strict=True):
            state["step"] = count
        written = [self.params[i] for i in rows] if rows else self.params
        torch.autograd.graph.increment_version(chain(written, self.state_bases))
        return True

    def _step_on_cpu(
        self,
        grads: list[Tensor],
        rows: Iterable[int],
        steps: list[int],
        groups: list[dict[str, Any]],
    ) -> None:
        """The CPU has no launches to save: a call for each param group."""
        of_group: dict[int, list[tuple[int, Tensor, int]]] = {}
        for row, grad, count in zip(rows, grads, steps, strict=True):
            of_group.setdefault(self.groups[row], []).append((row, grad, count))
        for number, members in of_group.items():
            lr, beta1, beta2, eps, weight_decay, adam_w_mode, bias_correction, maximize = _options(
                groups[number]
            )
            adam_(
                [self.params[row] for row, _, _ in members],
                [grad for _, grad, _ in members],
                [self.exp_avgs[row] for row, _, _ in members],
                [self.exp_avg_sqs[row] for row, _, _ in members],
                [count for _, _, count in members],
                lr=lr,
                beta1=beta1,
                beta2=beta2,
                eps=eps,
                weight_decay=weight_decay,
                adam_w_mode=bool(adam_w_mode),
                bias_correction=bool(bias_correction),
                maximize=bool(maximize),
            )
            for row, _, count in members:
                self.states[row]["step"] = count


def _options(group: dict[str, Any]) -> tuple[float, ...]:
    """A param group's numbers, in the order of AdamPlan.step's `options`."""
    beta1, beta2 = group["betas"]
    return (
        float(group["lr"]),
        float(beta1),
        float(beta2),
        float(group["eps"]),
        float(group["weight_decay"]),
        float(group["adam_w_mode"]),
        float(group["bias_correction"]),
        float(group["maximize"]),
    )


def _check_options(group: dict[str, Any]) -> None:
    """Raise ValueError for options that no step can honour."""
    lr, betas = group["lr"], group["betas"]
    if isinstance(lr, Tensor) and (lr.device.type != "cpu" or lr.numel() != 1):
        raise ValueError(
            f"lr is a tensor of {lr.numel()} elements on {lr.device}; accepted are a float or a "
            "tensor of one element on the CPU (reading one from the GPU would stall every step)"
        )
    if not float(lr) >= 0.0:
        raise ValueError(f"Invalid learning rate: {lr}; it must be >= 0")
    for index, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {index}: {beta}; must be in [0, 1)")
    if not group["eps"] >= 0.0:
        raise ValueError(f"Invalid epsilon value: {group['eps']}; it must be >= 0")
    if not group["weight_decay"] >= 0.0:
        raise ValueError(f"Invalid weight_decay value: {group['weight_decay']}; it must be >= 0")
    for name in ("amsgrad", "capturable", "differentiable"):
        if group.get(name):
            raise ValueError(f"FusedAdam does not support {name}=True")


def _check_params(params: list[Tensor]) -> None:
    """Raise RuntimeError where parameters or gradients are none that a step could take."""
    for index, param in enumerate(params):
        if param.device != params[0].device:
            raise RuntimeError(
                f"params[{index}] is on {param.device}, params[0] on {params[0].device}; "
                "a FusedAdam's parameters must be on one device"
            )
        if param.device.type not in ("mps", "cpu"):
            raise RuntimeError(f"params[{index}] is on {param.device}; accepted are mps and cpu")
        if param.dtype != torch.float32:
            raise RuntimeError(f"params[{index}] is {param.dtype}; accepted is torch.float32")
        if param.is_sparse or (param.grad is not None and param.grad.is_sparse):
            raise RuntimeError(f"params[{index}] or its grad is sparse; accepted are dense ones")
