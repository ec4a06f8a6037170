"""Adam and AdamW in one Metal dispatch for all parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from operator import is_, itemgetter
from typing import Any

import torch
from torch import Tensor
from torch._compile import _disable_dynamo  # torch.compiler.disable would import all of dynamo
from torch.optim import Optimizer
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ..ops.adam import AdamPlan
from ._flat import zeros_like_each

# A smaller eps is subnormal: flushed by a GPU, and its inverse is not finite.
_SMALLEST_EPS = 2.0**-126

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
    `torch.optim.Adam` too. Whether weight decay is decoupled is decided here, not by a state dict
    of theirs. Dropped states and parameters are freed at the next step.

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
            of another dtype than float32 or on another device, or shares memory; names which.
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
            "bias_correction": bool(bias_correction),
            "set_grad_none": set_grad_none,
        }
        self._registered: _Registered | None = None
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a param group, checking its options. See `torch.optim.Optimizer.add_param_group`."""
        if "decoupled_weight_decay" in param_group:  # torch.optim.Adam's name of it
            param_group["adam_w_mode"] = param_group.pop("decoupled_weight_decay")
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
        for group in self.param_groups:
            _check_options(group)
        registered = self._registered
        if registered is None or not registered.is_current(self):
            registered = self._register()
        # False: a tensor's memory has moved.
        if not (registered.step(self.param_groups) or self._register().step(self.param_groups)):
            raise RuntimeError("the memory of a parameter or of its state keeps moving")
        return loss

    def state_dict(self) -> dict[str, Any]:
        """The state as that of `torch.optim.AdamW`: `step` as a float32 tensor on the CPU."""
        state_dict = super().state_dict()
        state_dict["state"] = {
            index: {**state, "step": torch.tensor(state["step"], dtype=torch.float32, device="cpu")}
            if "step" in state
            else state
            for index, state in state_dict["state"].items()
        }
        for group in state_dict["param_groups"]:
            group["decoupled_weight_decay"] = group["adam_w_mode"]
        return state_dict

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over a state dict, or what was pickled; all of it or, where it raises, nothing."""
        defaults = state.get("defaults", getattr(self, "defaults", {}))
        before = self.__dict__.get("param_groups", [])
        for index, group in enumerate(state["param_groups"]):
            mine = before[index] if index < len(before) else defaults
            # Another optimizer's options; ours are in `mine`.
            group.pop("decoupled_weight_decay", None)
            for name in ("capturable", "differentiable"):
                group[name] = False
            for name, value in {**defaults, **mine}.items():
                group.setdefault(name, value)
            if isinstance(group["lr"], Tensor):
                group["lr"] = group["lr"].cpu()
            _check_options(group)
            for position, param in enumerate(group["params"]):
                name = f"state of params[{position}] in param group {index}"
                param_state = state["state"].get(param)
                if param_state:
                    _adopt_state(param_state, param, group, name)
        super().__setstate__(state)
        self._registered = None
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
        _check_params([p for p in everyone if p.grad is not None or self.state.get(p)])
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
        self.device = self.params[0].device if self.params else None
        self.plan: AdamPlan | None = None
        if self.device is not None and self.device.type == "mps":
            self.plan = AdamPlan(self.params, self.exp_avgs, self.exp_avg_sqs, self.groups)

    def is_current(self, optimizer: FusedAdam) -> bool:
        """Whether the optimizer still has these parameters, groups and states, and no others."""
        groups = optimizer.param_groups
        everyone = chain.from_iterable(g["params"] for g in groups)
        try:
            return (
                [len(g["params"]) for g in groups] == self.group_sizes
                and all(map(is_, everyone, self.everyone))
                and (not self.params or self.params[0].device == self.device)
                and len(optimizer.state) == len(self.state_dicts)
                and all(map(is_, optimizer.state.values(), self.state_dicts))
                and all(map(is_, map(_exp_avg, self.states), self.exp_avgs))
                and all(map(is_, map(_exp_avg_sq, self.states), self.exp_avg_sqs))
                and all(p.grad is None for p in self.waiting)
            )
        except KeyError:  # a state was emptied
            return False

    def step(self, groups: list[dict[str, Any]]) -> bool:
        """Step the parameters that have gradients; False where the plan must be made anew."""
        grads = [p.grad for p in self.params]
        rows: list[int] = []
        if any(map(is_, grads, repeat(None))):
            rows = [i for i, grad in enumerate(grads) if grad is not None]
            grads = [grads[i] for i in rows]
        if not grads:
            return True
        states = [self.states[i] for i in rows] if rows else self.states
        steps = [s["step"] + 1 for s in states]
        if set(map(type, steps)) != {int}:  # somebody set one
            steps = list(map(int, steps))
        present: list[Tensor] = grads  # type: ignore[assignment]
        options = list(chain.from_iterable(map(_options, groups)))
        if self.plan is None:
            self._step_on_cpu(present, rows or range(len(grads)), steps, options)
        elif not self.plan.step(present, rows, steps, options):
            return False
        else:
            written = [self.params[i] for i in rows] if rows else self.params
            torch.autograd.graph.increment_version(chain(written, self.state_bases))
        for state, count in zip(states, steps, strict=True):
            state["step"] = count
        return True

    def _step_on_cpu(
        self, grads: list[Tensor], rows: Sequence[int], steps: list[int], options: list[float]
    ) -> None:
        """The CPU has no launches to save: no plan."""
        torch.ops.mps_ds._adam_groups_(
            [self.params[i] for i in rows],
            grads,
            [self.exp_avgs[i] for i in rows],
            [self.exp_avg_sqs[i] for i in rows],
            [self.groups[i] for i in rows],
            steps,
            options,
        )


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
    if not 0.0 <= float(lr) < math.inf:
        raise ValueError(f"Invalid learning rate: {lr}; it must be finite and >= 0")
    if len(betas) != 2:
        raise ValueError(f"Invalid betas: {betas}; there must be two")
    for index, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {index}: {beta}; must be in [0, 1)")
    if group["eps"] != 0.0 and not _SMALLEST_EPS <= group["eps"] < math.inf:
        raise ValueError(
            f"Invalid epsilon value: {group['eps']}; it must be 0, or finite and at least 1.2e-38"
        )
    if not 0.0 <= group["weight_decay"] < math.inf:
        raise ValueError(
            f"Invalid weight_decay value: {group['weight_decay']}; it must be finite and >= 0"
        )
    for name in ("amsgrad", "capturable", "differentiable"):
        if group.get(name):
            raise ValueError(f"FusedAdam does not support {name}=True")


def _adopt_state(state: dict[str, Any], param: Tensor, group: dict[str, Any], name: str) -> None:
    """Check a loaded state, and make its step count an int."""
    for key in ("exp_avg", "exp_avg_sq"):
        if key not in state:
            raise ValueError(f"the {name} has no {key!r}; it has {sorted(state)}")
        if state[key].shape != param.shape:
            raise ValueError(
                f"{key!r} in the {name} has shape {tuple(state[key].shape)}, "
                f"the parameter has {tuple(param.shape)}"
            )
    # Without one: DeepSpeed and apex have kept it in the group.
    step = float(state.get("step", group.get("step", 0)))
    if not step.is_integer() or step < 0:
        raise ValueError(f"'step' in the {name} is {step}; it must be a whole number >= 0")
    state["step"] = int(step)


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
        if is_traceable_wrapper_subclass(param) or param.is_neg():
            kind = type(param).__name__ if not param.is_neg() else "lazily negated view"
            raise RuntimeError(f"params[{index}] is a {kind}; accepted are plain tensors")
