"""Adam and AdamW on the CPU, with states in host memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch._compile import _disable_dynamo  # torch.compiler.disable would import all of dynamo
from torch.optim import Optimizer

from ..ops import cpu_adam as ops
from ._cpu_adam_checks import adopt_state, check_options, check_plain


class CPUAdam(Optimizer):
    """Adam or AdamW whose steps run on the CPU, in one call for all parameters.

    A drop-in for DeepSpeed's DeepSpeedCPUAdam. Parameters are in host memory, or on `mps` in shared
    storage, where they are updated in place without a copy: states then take no memory that the GPU
    works with. The formula is that of :func:`mps_ds.ops.cpu_adam.cpu_adam_`.

    State: `exp_avg`, `exp_avg_sq` (and `max_exp_avg_sq` with amsgrad) on the CPU, laid out as the
    parameter; `step`, an int, of each parameter. State dicts load from and into `torch.optim.AdamW`
    and DeepSpeedCPUAdam; unlike theirs, a loaded state keeps the dtype that this optimizer gives
    it. Whether weight decay is decoupled is decided here, not by a state dict.

    Args:
        model_params: float32, float16 or bfloat16 parameters of any shape and strides, or param
            groups, or named parameters.
        lr: learning rate; a float, or a tensor of one element.
        bias_correction: False leaves the means uncorrected.
        betas: decay rates of the running means of the gradient and of its square, each in [0, 1).
        eps: added to the root of the second mean.
        weight_decay: decoupled (`adamw_mode`), or an L2 penalty.
        amsgrad: divide by the largest second mean so far.
        adamw_mode: True: AdamW; False: Adam.
        fp32_optimizer_states: True: states are float32; False: of the parameter's dtype.
        maximize: ascend instead of descend.

    Raises:
        ValueError: an option is outside its range.
        RuntimeError: from `step()`, before anything is written: a parameter or gradient has another
            dtype, is sparse, on a device that the CPU cannot reach, or shares memory; names which.
    """

    def __init__(
        self,
        model_params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        adamw_mode: bool = True,
        fp32_optimizer_states: bool = True,
        *,
        maximize: bool = False,
    ) -> None:
        self.adam_w_mode = bool(adamw_mode)
        self.fp32_optimizer_states = bool(fp32_optimizer_states)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "bias_correction": bias_correction,
            "amsgrad": amsgrad,
            "maximize": maximize,
        }
        super().__init__(model_params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a param group, checking its options. See `torch.optim.Optimizer.add_param_group`."""
        check_options({**self.defaults, **param_group})
        super().add_param_group(param_group)

    @_disable_dynamo
    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step for every parameter that has a gradient.

        Args:
            closure: reevaluates the model and returns the loss.

        Returns:
            The closure's loss, or None.
        """
        loss = _evaluate(closure)
        # Lists in parallel: thousands of tuples would set off Python's garbage collection.
        rows = _Rows()
        for index, group in enumerate(self.param_groups):
            check_options(group)
            for param in group["params"]:
                if param.grad is not None:
                    rows.params.append(param)
                    rows.groups.append(index)
                    rows.states.append(self._state_of(param, param, group))
        self._step(rows)
        return loss

    @_disable_dynamo
    @torch.no_grad()
    def step_subgroup(self, subgroup_id: int, closure: Callable[[], Any] | None = None) -> Any:
        """One step of the parameter that has a gradient, with the state kept for `subgroup_id`.

        For offload that moves one subgroup after the other through the same parameter.

        Raises:
            RuntimeError: several parameters have a gradient: which one's state is it?
        """
        loss = _evaluate(closure)
        owner = self._only_param(subgroup_id)
        if owner is not None:
            param, index = owner
            group = self.param_groups[index]
            check_options(group)
            self._step(_Rows([param], [index], [self._state_of(subgroup_id, param, group)]))
        return loss

    @_disable_dynamo
    @torch.no_grad()
    def rollback_subgroup(self, sub_group_id: int, closure: Callable[[], Any] | None = None) -> Any:
        """Undo the last step of a subgroup, up to rounding; its gradient must be that step's.

        Raises:
            RuntimeError: the subgroup has no step to undo, or several parameters have a gradient.
        """
        loss = _evaluate(closure)
        state = self.state.get(sub_group_id)  # type: ignore[call-overload]
        if not state:
            raise RuntimeError(
                f"Cannot rollback optimizer state for sub_group_id {sub_group_id} as it has not "
                "been initialized."
            )
        if state.get("step", 0) <= 0:
            raise RuntimeError(
                f"Cannot rollback sub_group_id {sub_group_id}: step count is {state.get('step', 0)}"
            )
        if "max_exp_avg_sq" in state:
            raise RuntimeError(f"Cannot rollback sub_group_id {sub_group_id}: amsgrad forgets")
        owner = self._only_param(sub_group_id)
        if owner is not None:
            param, index = owner
            _rollback(param, self.param_groups[index], state, self.adam_w_mode)
        return loss

    def state_dict(self) -> dict[str, Any]:
        """The state, with `step` as an int, which torch and DeepSpeed both load."""
        state_dict = super().state_dict()
        for group in state_dict["param_groups"]:
            group["decoupled_weight_decay"] = self.adam_w_mode
        return state_dict

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state dict of this class, `torch.optim.AdamW` or `Adam`, or DeepSpeedCPUAdam."""
        super().load_state_dict(state_dict)
        # torch has cast the states to the params' dtypes and moved them to their devices.
        numbers = chain.from_iterable(g["params"] for g in state_dict["param_groups"])
        params = chain.from_iterable(g["params"] for g in self.param_groups)
        for number, param in zip(numbers, params, strict=True):
            for key, value in state_dict["state"].get(number, {}).items():
                if key in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"):
                    state = torch.empty_like(param, dtype=self._dtype_of(param), device="cpu")
                    self.state[param][key] = state.copy_(value)

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled and copied: torch's part, and what the constructor decided."""
        modes = ("adam_w_mode", "fp32_optimizer_states")
        return {**super().__getstate__(), **{name: getattr(self, name) for name in modes}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over a state dict, or what was pickled; where it raises, nothing changes."""
        defaults = state.get("defaults", getattr(self, "defaults", {}))
        for index, group in enumerate(state["param_groups"]):
            group.pop("decoupled_weight_decay", None)
            for name, value in defaults.items():
                group.setdefault(name, value)
            check_options(group)
            for position, param in enumerate(group["params"]):
                name = f"state of params[{position}] in param group {index}"
                param_state = state["state"].get(param)
                if param_state:
                    adopt_state(param_state, param, group, name)
        super().__setstate__(state)

    def _step(self, rows: _Rows) -> None:
        flags = [bool(group["amsgrad"]) for group in self.param_groups]
        if len(set(flags)) < 2:
            return self._step_alike(rows, any(flags))
        # amsgrad is a matter of the whole call: one for those with it, one for those without.
        for amsgrad in (False, True):
            some = [i for i, index in enumerate(rows.groups) if flags[index] == amsgrad]
            self._step_alike(_Rows(*([x[i] for i in some] for x in rows)), amsgrad)

    def _step_alike(self, rows: _Rows, amsgrad: bool) -> None:
        if not rows.params:
            return
        params, groups, states = rows
        steps = [int(state["step"]) + 1 for state in states]
        grads = [param.grad for param in params]
        check_plain(params, grads)
        ops.step_lists(
            [
                params,
                grads,
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
            ],
            [state["max_exp_avg_sq"] for state in states] if amsgrad else [],
            [],
            groups=groups,
            steps=steps,
            group_options=list(chain.from_iterable(map(self._options, self.param_groups))),
        )
        for state, step in zip(states, steps, strict=True):
            state["step"] = step

    def _options(self, group: dict[str, Any]) -> list[float]:
        return _options(group, self.adam_w_mode)

    def _dtype_of(self, param: Tensor) -> torch.dtype:
        return torch.float32 if self.fp32_optimizer_states else param.dtype

    def _state_of(self, key: Any, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state: dict[str, Any] = self.state[key]
        if "exp_avg_sq" in state and (not group["amsgrad"] or "max_exp_avg_sq" in state):
            return state
        state.setdefault("step", 0)
        for name in ["exp_avg", "exp_avg_sq"] + ["max_exp_avg_sq"] * bool(group["amsgrad"]):
            if name not in state:
                state[name] = torch.zeros_like(param, dtype=self._dtype_of(param), device="cpu")
        return state

    def _only_param(self, subgroup_id: int) -> tuple[Tensor, int] | None:
        found = [
            (param, index)
            for index, group in enumerate(self.param_groups)
            for param in group["params"]
            if param.grad is not None
        ]
        if len(found) > 1:
            raise RuntimeError(
                f"subgroup {subgroup_id} has one state, but {len(found)} parameters have a gradient"
            )
        return found[0] if found else None


class _Rows:
    """What one step is about: params, the number of the group of each, and its state."""

    def __init__(
        self,
        params: list[Tensor] | None = None,
        groups: list[int] | None = None,
        states: list[dict[str, Any]] | None = None,
    ) -> None:
        self.params = params or []
        self.groups = groups or []
        self.states = states or []

    def __iter__(self) -> Iterator[list[Any]]:
        return iter((self.params, self.groups, self.states))


def _evaluate(closure: Callable[[], Any] | None) -> Any:
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def _options(group: dict[str, Any], adam_w_mode: bool) -> list[float]:
    return ops.options(
        group["lr"],
        group["betas"],
        group["eps"],
        group["weight_decay"],
        adam_w_mode,
        group["bias_correction"],
        group["maximize"],
    )


def _rollback(
    param: Tensor, group: dict[str, Any], state: dict[str, Any], adam_w_mode: bool
) -> None:
    assert param.grad is not None
    ops.rollback_lists(
        [[param], [param.grad], [state["exp_avg"]], [state["exp_avg_sq"]]],
        step=int(state["step"]),
        group_options=_options(group, adam_w_mode),
    )
    state["step"] = int(state["step"]) - 1
